"""The operator in any home: keepers of resources, their records and statuses, accounts, and processes."""
