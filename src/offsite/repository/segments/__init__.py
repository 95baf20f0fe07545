"""Segments: the bytes of a range as one immutable object with an index; writer, reader, checks."""
