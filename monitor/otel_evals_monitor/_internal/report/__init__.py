"""Reports of a results store: estimates of every slice, comparisons, and the worst runs."""
