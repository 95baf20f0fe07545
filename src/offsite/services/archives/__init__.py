"""Inspects, imports and exports foreign archives."""
