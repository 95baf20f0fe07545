"""Kafka's APIs as bytes: requests, answers and error codes. One file per API; I/O only through a router."""
