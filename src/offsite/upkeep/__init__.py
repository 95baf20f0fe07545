"""Changes or checks stored history: retention, collection, compaction, roll-up, verification."""
