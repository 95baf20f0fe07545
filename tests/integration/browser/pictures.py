"""Pictures of pages for the documents: `OFFSITE_PICTURES=docs/images` has the tests write them anew."""

from __future__ import annotations

import os
from pathlib import Path

from playwright.sync_api import Page


def picture(page: Page, name: str) -> None:
    """The whole page as `NAME.png`, where pictures are asked for."""
    if folder := os.environ.get("OFFSITE_PICTURES"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        where = page.locator("main > p.soft")  # a folder of the test
        where.evaluate_all("all => all.forEach(each => each.hidden = true)")
        page.screenshot(path=Path(folder, f"{name}.png"), full_page=True)
