"""The log of a metastore's commands as local files: one line per command, and a sidecar with the rest."""
