"""Records of generations: backups of compacted topics, in which a backup takes the place of the previous one."""
