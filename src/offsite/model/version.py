"""The version of offsite, written into repositories and requests."""

from __future__ import annotations

__version__ = "0.1.0"
