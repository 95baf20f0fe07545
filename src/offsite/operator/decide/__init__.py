"""Decides the next steps of an operator from the desired and the observed state. Pure."""
