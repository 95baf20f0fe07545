"""A browser for the tests of pages, and what every page is held to in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.integration.browser.chromium import Chromium, chromium

WIDE, PHONE = 1280, 360
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_SERIOUS = {"serious", "critical"}


@dataclass(slots=True, kw_only=True)
class Look:
    """A page as somebody looks at it. `troubles`: what the browser complained of, and what was asked of elsewhere."""

    page: Page
    url: str
    axe: Path
    troubles: list[str] = field(default_factory=list)

    def go(self, path: str, status: int = 200) -> Page:
        """The page, once all of it is there."""
        answer = self.page.goto(f"{self.url}{path}")
        assert answer is not None
        assert answer.status == status, path
        return self.page

    def faults(self) -> list[str]:
        """What axe finds wrong and calls serious, and whether one has to scroll sideways."""
        self.page.evaluate(self.axe.read_text())
        found = self.page.evaluate("rules => axe.run({runOnly: rules})", _RULES)
        serious = [
            f"{each['id']}: {node['html']}: {node['failureSummary']}"
            for each in found["violations"]
            if each["impact"] in _SERIOUS
            for node in each["nodes"]
        ]
        wide = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return serious + ([f"the page is {wide} px too wide"] if wide > 0 else [])

    def check(self) -> None:
        faults = self.faults() + self.troubles
        assert not faults, f"{self.page.url}: {faults}"


@pytest.fixture(scope="module")
def installed() -> Chromium:
    return chromium()


@pytest.fixture(scope="module")
def browser(installed: Chromium) -> Iterator[Browser]:
    """Ended with the module: while it runs, no other event loop may in this thread."""
    environment = {**os.environ, **installed.environment}
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=installed.executable, args=["--no-sandbox", "--disable-gpu"], env=environment
        )
        yield started
        started.close()


LookAt = Callable[..., Look]


@pytest.fixture
def look_at(browser: Browser, installed: Chromium) -> Iterator[LookAt]:
    """Somebody with a window of his own, who looks at the server at this URL."""
    contexts = []

    def begin(url: str, *, width: int = WIDE, **wishes: Any) -> Look:
        contexts.append(browser.new_context(viewport={"width": width, "height": 800}, **wishes))
        look = Look(page=contexts[-1].new_page(), url=url, axe=installed.axe)
        _listen(look)
        return look

    yield begin
    for each in contexts:
        each.close()


def _listen(look: Look) -> None:
    page, troubles = look.page, look.troubles
    page.on("console", lambda said: troubles.append(said.text) if said.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith(look.url) else troubles.append(asked.url))
