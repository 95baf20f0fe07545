"""A file per noun: parses, calls a service, and hands the result to `output`."""
