"""Selections of a person: topics, partitions, incarnations, groups, new names, new numbers of partitions. Pure."""
