"""Shared by every room: ids, names, times, sizes, bounds, options, errors. Pure: no I/O, no third-party import."""
