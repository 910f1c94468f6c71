"""What outlives the process, in one SQLite file: sampled runs until they are scored and delivered."""
