"""The files beside the pages: style, scripts, icon. An address has a digest of its file, so no browser uses a file that
it cached from another version of offsite."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from offsite.reports.html_page import STYLE_FILE

_STATIC = Path(__file__).parent / "static"
FILES = {
    "offsite.css": (STYLE_FILE, "text/css"),
    "offsite.js": (_STATIC / "offsite.js", "text/javascript"),
    "restore.css": (_STATIC / "restore.css", "text/css"),
    "restore.js": (_STATIC / "restore.js", "text/javascript"),
    "icon.svg": (_STATIC / "icon.svg", "image/svg+xml"),
}
"""Name → file and media type."""


@cache
def static_address(name: str) -> str:
    """Return the address of a file, for a page."""
    file, _ = FILES[name]
    return f"/static/{name}?v={hashlib.sha256(file.read_bytes()).hexdigest()[:8]}"
