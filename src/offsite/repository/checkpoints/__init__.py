"""Records of checkpoints in a repository beside its commits: small objects, created once."""
