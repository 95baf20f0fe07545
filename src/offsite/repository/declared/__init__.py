"""Decisions about declared backups: one ledger per resource, keyed by uid, and the lease of the operator that writes
it."""
