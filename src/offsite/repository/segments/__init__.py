"""Segments: the bytes of a range as one immutable object with its index; written, read, checked."""
