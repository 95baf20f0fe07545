"""Access control: host names, tokens, sessions, sizes."""
