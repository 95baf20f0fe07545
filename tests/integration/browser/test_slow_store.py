"""Pages of a repository whose store takes its time, and of one that does not answer any more."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.integration.browser.conftest import LookAt
from tests.integration.browser.served import BASE, coordinator, full_site
from tests.integration.kafka.cluster import wait_until
from tests.s3_servers import ENVIRONMENT, moto_server, new_s3_store

DELAY_S = 0.1
PAGES = ("/", BASE, f"{BASE}/points", f"{BASE}/checkpoints", f"{BASE}/groups", f"{BASE}/retention", "/jobs")
SLOW_MAX_S = 15.0
"""For a page whose requests take DELAY_S each: one after the other they would be more."""
SILENT_MAX_S = 40.0


@contextmanager
def slow_site(tmp_path: Path, delay: threading.Event, answers: threading.Event) -> Iterator[str]:
    """The URL of the full site in a bucket whose server waits before each answer while `delay` is set, and is silent
    while `answers` is not."""

    def before() -> None:
        answers.wait(SILENT_MAX_S * 2)
        time.sleep(DELAY_S if delay.is_set() else 0)

    with moto_server(before=before) as endpoint:
        store = new_s3_store(endpoint)
        with full_site(tmp_path) as site:
            for info in site.repository.store.list(""):
                store.put_if_absent(info.key, site.repository.store.get(info.key) or b"")
        yield f"{store.url}?endpoint={quote(endpoint, safe='')}"


@pytest.mark.soak
def test_pages_of_a_slow_repository_come_and_those_of_a_silent_one_say_so(look_at: LookAt, tmp_path: Path) -> None:
    delay, answers = threading.Event(), threading.Event()
    answers.set()
    with slow_site(tmp_path, delay, answers) as url, coordinator(url, environment=ENVIRONMENT) as served:
        delay.set()
        look = look_at(served)
        look.page.set_default_timeout(SILENT_MAX_S * 2 * 1000)
        for path in PAGES:
            began_s = time.monotonic()
            look.go(path)
            assert time.monotonic() - began_s < SLOW_MAX_S, path
            look.check()
        answers.clear()
        try:
            began_s = time.monotonic()
            assert "OFF-1601" in look.go("/", 503).inner_text("main")
            assert time.monotonic() - began_s < SILENT_MAX_S
            assert not look.faults()
        finally:
            answers.set()
        delay.clear()
        wait_until(lambda: httpx.get(f"{served}/").status_code == 200)  # pages wait for the store
        assert "nightly" in look.go("/").inner_text("main")
