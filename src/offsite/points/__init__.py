"""Restore points: the commit, the cut and the incarnations that a request means, and the records of each partition."""
