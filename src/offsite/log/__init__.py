"""What a Kafka log is: ranges, batch headers, CRC32C, records, header rewriting. Pure functions over bytes, no I/O."""
