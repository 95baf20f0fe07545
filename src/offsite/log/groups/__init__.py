"""`__consumer_offsets`: records, the resulting committed offsets, and committed offsets in columns."""
