"""A segment file of the format and its index: records as bytes, read, written, and walked without an index."""
