"""Transactions: replayed into one partition, their coordinators, and what these are asked."""
