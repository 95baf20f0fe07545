"""`offsite demo`: a real cluster, awkward data, a disaster, a restore, and an independent comparison."""
