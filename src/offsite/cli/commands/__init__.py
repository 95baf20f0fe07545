"""One file per noun: each parses, calls one service, and hands the result to `output`."""
