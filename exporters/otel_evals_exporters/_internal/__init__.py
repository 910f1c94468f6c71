"""Code that reads stored traces and feedback back, one module per backend."""
