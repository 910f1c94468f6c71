"""Read: the spans of a closed run become runs. Pure."""
