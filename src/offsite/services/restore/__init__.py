"""Restore a backup: judged, planned, recorded, written, proven, finished; each crash is harmless."""
