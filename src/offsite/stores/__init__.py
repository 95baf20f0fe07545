"""Places for bytes: folders and object stores, as a repository's (`Store`) or as a foreign archive's (`Files`)."""
