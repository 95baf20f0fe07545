"""Places for bytes: folders and object stores, as a repository's store (`Store`) or as a foreign archive's files
(`Files`)."""
