"""Active/Passive generations: compacted topics are read again from the beginning, and the old backup is removed."""
