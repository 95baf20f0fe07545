"""`offsite serve`, and what coordinators do."""
