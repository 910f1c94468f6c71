"""Sources: traces and feedback read back from a backend."""
