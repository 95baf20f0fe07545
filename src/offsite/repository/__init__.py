"""The repository: key layout, commit log, catalog, and the state folded from the commits."""
