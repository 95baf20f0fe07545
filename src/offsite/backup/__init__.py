"""Back up a cluster: read the source, run the copy, decide what may be committed."""
