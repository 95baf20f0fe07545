"""What every layer may use: ids, times, sizes, errors. Pure: no I/O, no third-party import."""
