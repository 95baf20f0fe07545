"""How processes of ours begin that run Python: no folder that others may write is one that modules are taken from."""

from __future__ import annotations

import sys

OWN_PYTHON = (sys.executable, "-P")
"""Without `-P` both `-c` and `-m` look for modules in the current folder first: whoever may write there, as everybody
may in `/tmp`, would have his own run."""
