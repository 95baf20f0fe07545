"""Records: out of batches and back, as Arrow columns, and the partition that a key belongs to."""
