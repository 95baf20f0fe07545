"""Rates that all workers of a run share: the driver hands out bytes, and workers pay for them before they move any."""
