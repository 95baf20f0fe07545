"""Compression in a log: the codecs of batches, and frames with a bound on the expanded size."""
