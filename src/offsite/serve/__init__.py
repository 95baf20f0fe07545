"""The coordinator: the commands over HTTP and as pages. The coordinator keeps no state: all state is in the
repository."""
