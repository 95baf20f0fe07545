"""Long work that somebody asks a coordinator for: each job is one command line, in a process of its own."""
