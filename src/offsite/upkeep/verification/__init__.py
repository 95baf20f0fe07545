"""Checks a backup: history, segments, snapshots and records. Reads only."""
