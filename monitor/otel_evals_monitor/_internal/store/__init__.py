"""The results store: scored runs, outcomes and rollups, in SQLite (extra `cli`) or PostgreSQL (`monitor`)."""
