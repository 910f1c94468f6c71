"""The built-in scorers, one file each. Each is a function that takes options and returns a scorer."""
