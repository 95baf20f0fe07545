"""One segment file of the format and its index: records in bytes, read, written, walked where the index is lost."""
