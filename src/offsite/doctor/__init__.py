"""Checks for frequent problems, each with a verdict and a cure. Changes nothing on the cluster, and leaves nothing in
the store."""
