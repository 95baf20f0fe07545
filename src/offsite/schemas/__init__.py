"""Schema registries: their contents by Confluent's API, and what records carry of them."""
