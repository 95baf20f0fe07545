"""What a person selects: topics, partitions, incarnations, groups, new names, new numbers of partitions. Pure."""
