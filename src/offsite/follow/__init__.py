"""A backup that runs with its topics."""
