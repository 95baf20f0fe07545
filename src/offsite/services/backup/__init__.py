"""Back up a cluster: what the source is, the run, and what of it may be committed."""
