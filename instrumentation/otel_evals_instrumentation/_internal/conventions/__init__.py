"""One module per span convention, mostly a table of attribute names. Found through entry points."""
