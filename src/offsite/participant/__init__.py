"""Older names of the modules of `offsite_participant`, a distribution of its own that offsite contains.

The older names of `offsite_participant.bcs*` are in `offsite.cut`.
"""
