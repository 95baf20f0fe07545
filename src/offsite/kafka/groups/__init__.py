"""Consumer groups of a cluster: their coordinators, and what these are asked."""
