"""Compaction of compacted topics in a backup: the plan, and its execution."""
