"""Compaction of backed up records: the last committed record of every key stays, at its offset."""
