"""The archives end: backups in the formats of other tools, read and written."""
