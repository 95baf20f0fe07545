"""Records: decoding from batches, encoding into batches, Arrow columns, and the partition of a key."""
