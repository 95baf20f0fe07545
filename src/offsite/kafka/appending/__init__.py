"""Write logs at known offsets, several partitions at a time."""
