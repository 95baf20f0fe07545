"""Consumer groups of a cluster: coordinators and requests."""
