"""Records of restores: request, writers, offset maps, outcome."""
