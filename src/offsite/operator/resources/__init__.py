"""The declarable resources, and their notation. Pure."""
