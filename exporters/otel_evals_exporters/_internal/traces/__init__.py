"""Reading stored traces back: one file per backend with an API for it."""
