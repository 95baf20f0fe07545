"""A file per noun: parses, calls one use, and hands the result to `output`."""
