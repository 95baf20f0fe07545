"""A Zeebe cluster as a participant of checkpoints, driven through its management API."""
