"""Checkpoints: restore points with ordered ids, taken on request or on schedule."""
