"""Checks of what usually goes wrong, each with a verdict and a cure. Nothing on the cluster is changed, and nothing is
left in the store."""
