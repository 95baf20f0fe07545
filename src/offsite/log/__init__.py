"""A Kafka log: ranges, batch headers, CRC32C, transactions, offset maps. Pure functions over bytes, no I/O."""
