"""Collection: deletes objects that a roll-up, a compaction or retention made superfluous."""
