"""Active/Passive generations: compacted topics are read anew from the beginning, and the old backup is removed."""
