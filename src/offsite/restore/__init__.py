"""Restores a backup: judged, planned, recorded, written, proven, finished; every crash is harmless."""
