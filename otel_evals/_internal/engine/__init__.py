"""The engine: from captured spans to delivered scores, on one thread."""
