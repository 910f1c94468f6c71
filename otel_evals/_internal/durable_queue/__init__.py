"""The durable queue: sampled runs are kept in an SQLite file until they are scored and delivered."""
