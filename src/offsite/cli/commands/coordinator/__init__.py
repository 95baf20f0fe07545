"""`offsite serve`, jobs of coordinators, and `offsite doctor`, also answered by coordinators."""
