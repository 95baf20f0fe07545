"""Repository → Kafka: the plan, the target topics, and the writers of one partition, one per mode."""
