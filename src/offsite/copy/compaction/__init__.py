"""Compaction of what is backed up: the last committed record of each key stays, at its offset."""
