"""Repository → Kafka: the plan, the target topics, and the writing of one partition in each of its ways."""
