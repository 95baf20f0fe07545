"""Observes repositories, locks, slots and agents, and changes them by one step."""
