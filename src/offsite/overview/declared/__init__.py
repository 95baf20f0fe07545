"""Declared backups, from the records of the repository."""
