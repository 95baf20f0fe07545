"""`__consumer_offsets`: its records, what they add up to, and committed offsets in columns."""
