"""The records of a coordinator's jobs: request, progress, end."""
