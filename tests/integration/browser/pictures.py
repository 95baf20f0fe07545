"""Pictures of pages for the documents: `make pictures` has tests write them anew, into the folder that
`OFFSITE_PICTURES` names.

A picture is replaced only if its page says or looks like something else: `pages.json` beside the pictures has a hash of
each page, without numbers, times and ids, and of its style.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from itertools import product
from pathlib import Path

from playwright.sync_api import Page

FOLDER = os.environ.get("OFFSITE_PICTURES", "")
BYTES_MAX = 80_000
_FORMS = tuple(product((1_600, 1_300, 1_000, 700), (90, 80, 70)))
"""Heights in pixels, at most, and qualities: the first ones that give a small file are taken."""
_PAGES = "pages.json"
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_CHANGING = re.compile(
    rf"[0-9a-f]{{8,}}(?:-[0-9a-f]+)*|\d[\d.,:]*(?:\s*(?:ms|s|min|h|d|[KMGT]?i?B)\b)?|\b(?:{_MONTHS})\b", re.IGNORECASE
)
_WORDS = """() => {
  const shown = document.body.cloneNode(true);
  for (const drawing of shown.querySelectorAll("svg"))
    drawing.textContent = [...new Set([...drawing.children].map(part => part.tagName + part.classList))].sort();
  const styles = [...document.styleSheets].flatMap(sheet => [...sheet.cssRules].map(rule => rule.cssText));
  return shown.innerHTML + styles.join("\\n") + matchMedia("(prefers-color-scheme: dark)").matches + innerWidth;
}"""
"""Of a drawing its kinds of parts: the number of ticks depends on the time of day."""
_NAME_PLACES = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode())
    walker.currentNode.data = walker.currentNode.data
      .replace(/\\/[^ ]*\\/repository/g, "/srv/backups").replace(/127\\.0\\.0\\.1:\\d+/g, "broker:9092")
      .replace(/process \\d+ of \\S+ on \\S+/g, "process 4711 of kafka on backup-1");
}"""
"""Names of folders, ports and users of the test mean nothing to a reader."""


def picture(page: Page, name: str) -> None:
    """The page from its top as `NAME.webp`, where pictures are asked for."""
    if not FOLDER:
        return
    page.evaluate(_NAME_PLACES)
    file, pages = Path(FOLDER, f"{name}.webp"), Path(FOLDER, _PAGES)
    hashes = json.loads(pages.read_text()) if pages.exists() else {}
    shown = hashlib.sha256(_CHANGING.sub("0", page.evaluate(_WORDS)).encode()).hexdigest()[:16]
    if file.exists() and hashes.get(name) == shown:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(next(data for form in _FORMS if len(data := _taken(page, *form)) < BYTES_MAX))
    pages.write_text(json.dumps(dict(sorted({**hashes, name: shown}.items())), indent=1) + "\n")


def _taken(page: Page, height_max: int, quality: int) -> bytes:
    width, height = page.evaluate("[innerWidth, document.documentElement.scrollHeight]")
    session = page.context.new_cdp_session(page)
    taken = session.send(
        "Page.captureScreenshot",
        {
            "format": "webp",
            "quality": quality,
            "captureBeyondViewport": True,
            "clip": {"x": 0, "y": 0, "width": width, "height": min(height, height_max), "scale": 1},
        },
    )
    session.detach()
    return base64.b64decode(taken["data"])
