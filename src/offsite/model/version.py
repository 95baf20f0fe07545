"""The version of offsite: what repositories and requests are signed with."""

from __future__ import annotations

__version__ = "0.1.0"
