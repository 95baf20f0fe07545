"""Checkpoints in the form of Zeebe's management API for backups: a program that drives Zeebe's backups drives
offsite."""
