"""Commands without a repository: the data lies on this machine."""
