"""The repository: the key layout, the commit log, the catalog, and the state that they add up to."""
