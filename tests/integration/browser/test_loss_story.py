"""A topic is lost and brought back, by clicks alone: from the page that says so to the proof of the restore."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from offsite.repository.repository import Repository
from offsite.sandbox import SandboxInfo
from offsite.stores.posix_store import open_folder
from tests.integration.browser.conftest import PHONE, Look, LookAt
from tests.integration.browser.pictures import picture
from tests.integration.browser.served import coordinator
from tests.integration.kafka.cluster import Cluster

VALUES = [f'{{"order": {number}}}'.encode() for number in range(500)]
PATIENCE_MS = 120_000
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def cluster(broker: SandboxInfo) -> Cluster:
    return Cluster(broker.bootstrap)


@pytest.fixture
def url(tmp_path: Path, cluster: Cluster) -> Iterator[str]:
    Repository.init(open_folder(tmp_path / "repository"))
    with coordinator(tmp_path / "repository", "--bootstrap", cluster.bootstrap, "--interval", "2s") as url:
        yield url


def test_a_lost_topic_is_brought_back_by_clicks(url: str, cluster: Cluster, look_at: LookAt) -> None:
    topic = cluster.make_topic(partitions=2)
    cluster.produce(topic, VALUES)
    before = cluster.records(topic)
    look = look_at(url)
    begin_backup(look, topic)
    succeeded(look.page)

    page = look.go("/")
    expect(page.locator(".verdict")).to_contain_text("Safe, never proven.")
    cluster.admin.delete_topics([topic])
    lost(look, topic)
    look.check()
    picture(page, "source-lost")
    page.get_by_role("link", name=f"Restore {topic}").click()
    page.get_by_role("button", name="See the plan").click()
    expect(page.locator("pre").first).to_contain_text(f"--topics={topic}")
    picture(page, "restore-plan")
    look.check()
    confirm = page.get_by_label("To confirm, type the id of the cluster")
    confirm.fill("another cluster")
    page.get_by_role("button", name="Restore").click()
    expect(page.locator("main")).to_contain_text("nothing was done")
    confirm.fill(str(page.locator("main strong").first.inner_text()))
    page.get_by_role("button", name="Restore").click()
    succeeded(page)
    expect(page.get_by_role("heading", name="Proof")).to_be_visible()
    expect(page.locator(".verdict").nth(1)).to_contain_text("500")
    picture(page, "restore-proof")
    look.check()
    assert cluster.records(topic) == before, "the same records at the same offsets"


def lost(look: Look, topic: str) -> None:
    """The first page tells it by itself, once somebody loads it again."""
    for _ in range(int(PATIENCE_MS / 500)):
        if f"Lost at the source: {topic} (gone)." in look.go("/").locator("main").inner_text():
            return
        look.page.wait_for_timeout(500)
    raise AssertionError(look.page.locator("main").inner_text())


def begin_backup(look: Look, topic: str) -> None:
    """The first of a name, as no page begins one: by the API."""
    body = {"topics": [topic]}
    begun = look.page.request.post(f"{look.url}/api/v1/backups/shop/runs", data=body)
    assert begun.status == 202, begun.text()
    look.go(f"/jobs/{begun.json()['job']}")


def succeeded(page: Page) -> None:
    """The page of a job tells its end by itself."""
    expect(page.locator("[role=status]")).to_have_text(
        re.compile("^State: (succeeded|failed|lost|cancelled)"), timeout=PATIENCE_MS
    )
    expect(page.locator("[role=status]")).to_contain_text("succeeded")


def test_a_job_is_ended_by_its_button(url: str, cluster: Cluster, look_at: LookAt) -> None:
    topic = cluster.make_topic()
    cluster.produce(topic, VALUES)
    look = look_at(url, width=PHONE)
    begin_backup(look, topic)
    look.page.get_by_role("button", name="Cancel").click()
    expect(look.page.locator("[role=status]")).to_contain_text(re.compile("cancelled|succeeded"), timeout=PATIENCE_MS)
    look.go("/jobs")
    look.check()
