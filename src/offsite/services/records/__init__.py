"""Records of a backup for people: found, decoded by their schemas, shown."""
