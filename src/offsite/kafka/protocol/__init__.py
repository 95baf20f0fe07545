"""Kafka's APIs as bytes: requests, answers and error codes. One file per subject; I/O only through a router."""
