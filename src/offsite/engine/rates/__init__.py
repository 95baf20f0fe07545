"""Rates shared by all workers of a run: the driver hands out bytes, and workers pay for bytes before moving them."""
