"""The way to a cluster: from the settings of Kafka users to one frozen value."""
