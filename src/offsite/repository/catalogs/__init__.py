"""The objects of a catalog: seal, partition table, and the parts shared with later catalogs."""
