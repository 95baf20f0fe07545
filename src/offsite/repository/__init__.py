"""The repository end: stores, the key layout, segments, the commit log, the catalog. Only it touches a store."""
