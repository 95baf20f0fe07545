"""A topic is lost and brought back, by clicks alone: from the page that says so to the proof of the restore."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from offsite.repository.repository import Repository
from offsite.sandbox import SandboxInfo
from offsite.stores.posix_store import open_folder
from tests.integration.browser.conftest import PHONE, Look, LookAt
from tests.integration.browser.pictures import picture
from tests.integration.browser.served import coordinator
from tests.integration.kafka.cluster import Cluster

VALUES = [f'{{"order": {number}}}'.encode() for number in range(500)]
PATIENCE_MS = 120_000
CLICKS_MAX, TABS_MAX = 6, 60
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def cluster(broker: SandboxInfo) -> Cluster:
    return Cluster(broker.bootstrap)


@pytest.fixture
def url(tmp_path: Path, cluster: Cluster) -> Iterator[str]:
    Repository.init(open_folder(tmp_path / "repository"))
    with coordinator(tmp_path / "repository", "--bootstrap", cluster.bootstrap, "--interval", "2s") as url:
        yield url


def test_a_lost_topic_is_brought_back_by_few_clicks(
    url: str, cluster: Cluster, look_at: LookAt, tmp_path: Path
) -> None:
    """From the page that tells the loss to the proof as a file; nothing is typed but the confirmation."""
    topic = cluster.make_topic(partitions=2)
    cluster.produce(topic, VALUES)
    before = cluster.records(topic)
    look = look_at(url, accept_downloads=True)
    begin_backup(look, topic)
    succeeded(look.page)

    page = look.go("/")
    expect(page.locator(".verdict")).to_contain_text("Safe, never proven.")
    cluster.admin.delete_topics([topic])
    lost(look, topic)
    look.check()
    clicks = Clicks()
    clicks.on(page.get_by_role("link", name=f"Restore {topic}"))
    expect(page.get_by_role("checkbox", name=topic)).to_be_checked()
    expect(page.get_by_label(f"Name of {topic} in the target")).to_have_value(topic)
    expect(page.get_by_text("gone at the source")).to_be_visible()
    look.check()
    clicks.on(page.get_by_role("button", name="See the plan"))
    expect(page.locator("pre").first).to_contain_text(f"--topics={topic}")
    expect(page.locator("dl")).to_contain_text("none of these topics: each is created")
    expect(page.locator("dl")).to_contain_text("500 records")
    look.check()
    confirm = page.get_by_label("To confirm, type the id of the cluster")
    confirm.fill("another cluster")
    page.get_by_role("button", name="Restore", exact=True).click()
    expect(page.locator("main")).to_contain_text("nothing was done")
    confirm.fill(str(page.locator("main strong").first.inner_text()))
    clicks.on(page.get_by_role("button", name="Restore", exact=True))
    succeeded(page)
    expect(page.get_by_role("heading", name="Proof")).to_be_visible()
    expect(page.locator(".verdict").nth(1)).to_contain_text("500")
    picture(page, "restore-proof")
    look.check()
    with page.expect_download() as begun:
        clicks.on(page.get_by_role("link", name="Download the proof"))
    begun.value.save_as(tmp_path / "proof.html")
    assert clicks.count <= CLICKS_MAX
    assert cluster.records(topic) == before, "the same records at the same offsets"
    is_a_proof_to_send(look_at, tmp_path / "proof.html", topic)


class Clicks:
    """Counts the clicks of a story."""

    def __init__(self) -> None:
        self.count = 0

    def on(self, what: Locator) -> None:
        self.count += 1
        what.click()


def is_a_proof_to_send(look_at: LookAt, file: Path, topic: str) -> None:
    """One file, readable where nothing else is."""
    look = look_at(f"file://{file}")
    look.page.goto(f"file://{file}")
    expect(look.page.locator(".verdict")).to_contain_text("Proven: 500 records were restored and read back")
    expect(look.page.locator("main")).to_contain_text(f"{topic}/0")
    expect(look.page.locator("main")).to_contain_text("blake3:")
    look.check()
    picture(look.page, "proof-file")


def test_a_lost_topic_is_brought_back_by_keyboard_alone(url: str, cluster: Cluster, look_at: LookAt) -> None:
    """By Tab, Enter and Space; the confirmation alone is typed."""
    topic = cluster.make_topic(partitions=2)
    cluster.produce(topic, VALUES)
    before = cluster.records(topic)
    look = look_at(url)
    begin_backup(look, topic)
    succeeded(look.page)
    cluster.admin.delete_topics([topic])
    lost(look, topic)
    page = look.page
    tab_to(page, page.get_by_role("link", name=f"Restore {topic}"))
    page.keyboard.press("Enter")
    page.wait_for_url("**/restore?*")
    tab_to(page, page.get_by_role("link", name="To the button that shows the plan"))
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_role("button", name="See the plan"))
    page.keyboard.press("Space")
    page.wait_for_url("**/restore/plan")
    tab_to(page, page.get_by_label("To confirm, type the id of the cluster"))
    page.keyboard.type(str(page.locator("main strong").first.inner_text()))
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/*")
    succeeded(page)
    tab_to(page, page.get_by_role("link", name="Download the proof"))
    assert cluster.records(topic) == before


def tab_to(page: Page, what: Locator) -> None:
    """Press Tab until the element has the focus."""
    for _ in range(TABS_MAX):
        page.keyboard.press("Tab")
        if what.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"{TABS_MAX} times Tab did not lead to {what}")


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
