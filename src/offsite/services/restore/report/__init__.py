"""What a restore will do, and what it did, as people and scripts read it."""
