"""A small stream processor whose partitions are logs in Kafka, and its consistent backup: see README.md."""
