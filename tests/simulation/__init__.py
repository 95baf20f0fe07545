"""A deterministic simulation of checkpoints of a log processor: one seed, one course of events, no time of its own."""
