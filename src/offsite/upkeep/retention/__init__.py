"""Retention: keeps restore points by a policy, and expires data needed by no restore point."""
