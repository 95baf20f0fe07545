"""Kafka's APIs as bytes: a request, its answer, and the codes of errors. One file per API; no I/O but by a router."""
