"""Child processes: started as new interpreters, never forked, and connected by pipes."""
