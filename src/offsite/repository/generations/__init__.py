"""What is remembered of generations: backups of compacted topics, of which one takes the place of the one before."""
