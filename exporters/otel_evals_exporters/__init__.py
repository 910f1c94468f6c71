"""The way out: one module per destination that needs more than the core, found through entry points."""
