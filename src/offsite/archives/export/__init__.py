"""Exports of a backup or a cluster into an archive: plans, the run, and the task of a worker."""
