"""Sources of traces and feedback, one module per backend."""
