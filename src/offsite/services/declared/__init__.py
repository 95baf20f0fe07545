"""Declared backups, as the repository tells of them."""
