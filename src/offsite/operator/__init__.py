"""Declared backups and restores: resources hold the spec, reconcilers bring the spec about and report the status."""
