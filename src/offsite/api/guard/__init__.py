"""Who may ask for what: names, tokens, sessions, sizes."""
