"""Compaction of compacted topics in a backup: what it will do, and the doing."""
