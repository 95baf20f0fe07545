"""How to reach a cluster: from the settings Kafka users have to one frozen value."""
