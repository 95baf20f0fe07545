"""Records of generations: backups of compacted topics that replace another."""
