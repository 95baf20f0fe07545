"""Checkpoints in the shape of Zeebe's management API for backups: what drives a Zeebe cluster drives offsite."""
