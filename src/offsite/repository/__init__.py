"""The repository end: stores, the key layout, segments, the commit log, the catalog. The only layer that touches a store."""
