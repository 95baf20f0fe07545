"""The coordinator: what the command line does, over HTTP and as pages. It keeps nothing: the repository does."""
