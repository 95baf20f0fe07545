"""A backup against a live cluster: the expected records, the ranges to read, and the result."""
