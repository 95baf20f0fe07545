"""Jobs of a coordinator: every job is one command line, in a process of its own."""
