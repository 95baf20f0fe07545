"""What is remembered of a restore: its request, who writes for it, the offset maps, how it ended."""
