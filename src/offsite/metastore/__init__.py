"""The log of a metastore's commands as local files: one line per command, and a sidecar that knows the rest."""
