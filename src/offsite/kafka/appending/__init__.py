"""Logs written at offsets that are known beforehand, several partitions at a time."""
