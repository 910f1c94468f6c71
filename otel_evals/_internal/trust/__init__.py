"""Keys, signatures, and the mark of what an evaluation caused."""
