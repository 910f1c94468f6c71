"""Reading facts out of prose: numbers, dates, times, identifiers and names, in code only."""
