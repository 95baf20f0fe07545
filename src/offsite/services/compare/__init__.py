"""A backup against a live cluster: what is expected, where it is looked for, what was found."""
