"""Reading feedback back: one file per backend that has an API for it."""
