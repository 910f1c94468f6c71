"""Code that reads stored traces back, one module per backend."""
