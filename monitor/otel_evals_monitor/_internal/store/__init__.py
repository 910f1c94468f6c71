"""The results store: scored runs, their outcomes and rollups, in SQLite or PostgreSQL (extras `cli`, `monitor`)."""
