"""Transactions: replay into one partition, coordinators, requests."""
