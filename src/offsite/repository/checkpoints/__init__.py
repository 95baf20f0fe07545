"""What a repository tells of checkpoints beside its commits: small objects that are created once."""
