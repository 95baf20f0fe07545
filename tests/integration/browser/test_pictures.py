"""The pictures of the documents, of a shop with days of history. Each page is held to what all pages are held to."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.metastore.backup_file import BackupFile
from offsite.metastore.folder import BackupName, NameForm
from offsite.repository.declared.notes import DeclaredNote, put_note
from offsite.serve.tokens import new_token
from offsite.stores.posix_store import open_folder
from tests.fake_cluster.site import Site
from tests.integration.browser.conftest import PHONE, Look, LookAt
from tests.integration.browser.pictures import FOLDER, picture
from tests.integration.browser.served import BASE, coordinator, empty_repository
from tests.integration.browser.shop_site import shop_site
from tests.unit.metastore.commands import HEADER, command
from tests.unit.operator.work.declared import Declared

pytestmark = [pytest.mark.skipif(not FOLDER, reason="make pictures"), pytest.mark.timeout(600)]
BOTH = {
    "/": "overview",
    BASE: "topics",
    f"{BASE}/over-time": "over-time",
}
"""In light and dark."""
ONCE = {
    f"{BASE}/source": "source",
    f"{BASE}/points": "points",
    f"{BASE}/checkpoints": "checkpoints",
    f"{BASE}/checkpoints/38": "checkpoint",
    f"{BASE}/groups": "groups",
    f"{BASE}/records?topic=orders": "records",
    f"{BASE}/records/payments/0/5": "record",
    f"{BASE}/deleted": "deleted",
    f"{BASE}/proofs": "proofs",
    f"{BASE}/retention?keep_daily=3": "retention",
    f"{BASE}/restore": "restore",
    "/jobs": "jobs",
}
_LOST = "Lost at the source: shipments (gone)."


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with shop_site(tmp_path_factory.mktemp("shop"), time.time_ns() // 1_000_000) as site:
        yield site


@pytest.fixture(scope="module")
def served(site: Site) -> Iterator[str]:
    options = ["--bootstrap", f"{site.source.address}", "--target", f"dr={site.target.address}", "--interval", "2s"]
    with coordinator(Path(site.repository.store.url), *options) as url:
        yield url


def _see_loss(look: Look) -> Page:
    """The first page, once the source was looked at."""
    while _LOST not in look.go("/").inner_text("main"):
        look.page.wait_for_timeout(500)
    return look.page


def test_pictures_in_light_and_dark(served: str, look_at: LookAt) -> None:
    for scheme in ("light", "dark"):
        look = look_at(served, color_scheme=scheme)
        _see_loss(look)
        for path, name in BOTH.items():
            look.go(path)
            look.check()
            picture(look.page, f"{name}-{scheme}")


def test_pictures_of_the_other_pages(served: str, look_at: LookAt) -> None:
    look = look_at(served, color_scheme="light")
    _see_loss(look)
    for path, name in ONCE.items():
        look.go(path)
        look.check()
        picture(look.page, name)


def test_the_picture_of_a_phone(served: str, look_at: LookAt) -> None:
    look = look_at(served, color_scheme="dark", width=PHONE)
    look.go(f"{BASE}/over-time")
    look.check()
    picture(look.page, "over-time-phone")


def test_the_pictures_of_a_loss(served: str, look_at: LookAt) -> None:
    look = look_at(served, color_scheme="light")
    page = _see_loss(look)
    picture(page, "source-lost")
    page.get_by_role("link", name="Restore shipments").click()
    picture(page, "restore-choice")
    page.get_by_role("button", name="See the plan").click()
    page.locator("pre").first.wait_for()
    look.check()
    picture(page, "restore-plan")


def test_the_picture_of_several_repositories(site: Site, look_at: LookAt, tmp_path: Path) -> None:
    shop, archive = site.repository.store.url, empty_repository(tmp_path)
    file = tmp_path / "serve.yaml"
    file.write_text(
        f"repositories:\n  shop:\n    repo: {shop}\n    bootstrap: {site.source.address}\n    interval: 2s\n"
        f"  archive:\n    repo: {archive}\n    read-only: true\n"
    )
    with coordinator(None, "--config", file) as url:
        look = look_at(url, color_scheme="light")
        while "shipments" not in look.go("/").inner_text("main"):
            look.page.wait_for_timeout(500)
        look.check()
        picture(look.page, "several")


def test_the_pictures_of_declared_backups_and_metastores(look_at: LookAt, tmp_path: Path) -> None:
    repository = empty_repository(tmp_path)
    declared = Declared(open_folder(repository))
    declared.start("shop")
    now_ms = declared.store.now_ms()
    put_note(declared.store, declared.layout, DeclaredNote(name="shop", at_ms=now_ms, by="operator"))
    (metastore := tmp_path / "metastore").mkdir(mode=0o700)
    name = BackupName(topic=HEADER.topic, made_ms=now_ms, form=NameForm.KLIP)
    with BackupFile.create(metastore, name, HEADER) as file:
        file.append([command(1), command(2)])
    with coordinator(repository, "--metastore", metastore) as url:
        look = look_at(url, color_scheme="light")
        for page in ("declared", "metastores"):
            look.go(f"/{page}")
            picture(look.page, page)


def test_the_picture_of_a_login(site: Site, look_at: LookAt, tmp_path: Path) -> None:
    new_token("ann:read", tmp_path / "tokens")
    with coordinator(Path(site.repository.store.url), "--token-file", tmp_path / "tokens") as url:
        look = look_at(url, color_scheme="light")
        look.go("/")
        picture(look.page, "login")


def test_the_pictures_of_files(site: Site, look_at: LookAt, tmp_path: Path) -> None:
    file = tmp_path / "status.html"
    CliRunner().invoke(app, ["status", "--repo", site.repository.store.url, "--html", str(file)])
    drill = max(Path(site.repository.store.url).glob("backups/*/drills/*/report.html"))
    for path, name in ((file, "status-file"), (drill, "drill-report")):
        look = look_at(f"file://{path.parent}", color_scheme="light")
        look.page.goto(f"file://{path}")
        picture(look.page, name)
