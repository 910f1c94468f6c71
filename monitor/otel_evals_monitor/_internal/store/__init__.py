"""The results store: scored runs, their outcomes and rollups, in SQLite or PostgreSQL.

`ResultsStore` opens one; `reading` has the queries, `keeping` removes what is too old or is to be forgotten.
Everything here needs SQLAlchemy (extra `results`).
"""
