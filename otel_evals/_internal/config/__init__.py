"""Configuration, in code and in YAML."""
