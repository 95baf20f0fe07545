"""Backups and restores that are declared: resources say what is to be, reconcilers bring it about and say what is."""
