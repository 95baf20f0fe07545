"""Repository → Kafka at the source's own offsets: transactions replayed, gaps filled."""
