"""How offsite starts Python processes: never with modules from a folder that others may write."""

from __future__ import annotations

import sys

OWN_PYTHON = (sys.executable, "-P")
"""Without `-P` both `-c` and `-m` look for modules in the current folder first: anybody with write access there, as
everybody has in `/tmp`, could run code."""
