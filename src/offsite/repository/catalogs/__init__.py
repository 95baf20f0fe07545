"""The objects of a catalog: its seal, its table of partitions, and the parts that it shares with later ones."""
