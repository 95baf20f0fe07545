"""The upkeep of stored history: retention, collection, compaction, roll-up, verification."""
