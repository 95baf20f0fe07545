"""An overview of a repository: what is in it, and whether it is in good shape."""
