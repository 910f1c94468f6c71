"""The engine in a child process: `configure(isolation="process")`."""
