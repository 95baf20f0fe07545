"""What was decided of a declared backup: a ledger for each resource, by its uid, and who may write into it."""
