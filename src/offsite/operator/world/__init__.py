"""Looks at what is, and changes it by one step: repositories, locks, slots, agents."""
