"""Shared by every layer: ids, times, sizes, errors. Pure: no I/O, no third-party import."""
