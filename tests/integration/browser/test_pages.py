"""Every page in a real browser: nothing it complains of, nothing axe finds serious, reached by keyboard, read on a
phone, in light and dark, with and without JavaScript; over a full repository, an empty one and a damaged one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.metastore.backup_file import BackupFile
from offsite.metastore.folder import BackupName, NameForm
from offsite.serve.tokens import new_token
from tests.fake_cluster.site import Site
from tests.integration.browser.conftest import PHONE, LookAt
from tests.integration.browser.served import BASE, CHECKPOINT, coordinator, damage, empty_repository, full_site
from tests.unit.metastore.commands import HEADER, command

PAGES = (
    "/",
    BASE,
    f"{BASE}/source",
    f"{BASE}?find=pay",
    f"{BASE}/points",
    f"{BASE}/over-time",
    f"{BASE}/restore?topics=orders&commit=1&groups=all",
    f"{BASE}/checkpoints",
    f"{BASE}/checkpoints/{CHECKPOINT}",
    f"{BASE}/groups",
    f"{BASE}/records?topic=orders",
    f"{BASE}/records/orders/0/1",
    f"{BASE}/records/orders/0/99",
    f"{BASE}/retention?keep_daily=3",
    f"{BASE}/restore",
    "/metastores",
    "/declared",
    "/jobs",
)
_REACHED = "a, button, input:not([type=radio]), input:checked, select, summary, [tabindex]"
"""Of a group of radio buttons Tab reaches the chosen one; arrows go on from there."""
MISSING = ("/backups/none", f"{BASE}/checkpoints/99", "/jobs/20260101-000000-00000000")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with full_site(tmp_path_factory.mktemp("full")) as site:
        yield site


@pytest.fixture(scope="module")
def served(site: Site) -> Iterator[str]:
    source, target = site.source.address, site.target.address
    metastore = Path(site.repository.store.url).parent / "metastore"
    metastore.mkdir(mode=0o700)
    name = BackupName(topic=HEADER.topic, made_ms=5000, form=NameForm.KLIP)
    with BackupFile.create(metastore, name, HEADER) as file:
        file.append([command(1), command(2)])
    options = ["--bootstrap", f"{source}", "--target", f"dr={target}", "--metastore", f"{metastore}"]
    with coordinator(Path(site.repository.store.url), *options) as url:
        yield url


@pytest.mark.parametrize("wishes", [{"color_scheme": "light"}, {"color_scheme": "dark", "width": PHONE}])
def test_every_page_is_sound(served: str, look_at: LookAt, wishes: dict[str, str]) -> None:
    look = look_at(served, **wishes)
    for path in PAGES:
        look.go(path)
        look.check()
    assert look.page.title() != "taken over"


def test_what_is_not_there_is_told_in_a_page(served: str, look_at: LookAt) -> None:
    look = look_at(served)
    for path in MISSING:
        look.go(path, 404)
        assert not look.faults()


def test_each_link_and_field_is_reached_by_keyboard_and_seen(served: str, look_at: LookAt) -> None:
    look = look_at(served)
    for path in ("/", BASE, f"{BASE}/restore", f"{BASE}/retention"):
        page = look.go(path)
        wanted = page.locator(_REACHED).filter(visible=True).count()
        seen = set()
        for _ in range(wanted):
            page.keyboard.press("Tab")
            seen.add(page.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)"))
            drawn = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert drawn != "none", (path, page.evaluate("document.activeElement.outerHTML"))
        assert len(seen) == wanted, path


def test_a_repository_without_a_backup_says_what_to_do(look_at: LookAt, tmp_path: Path) -> None:
    with coordinator(empty_repository(tmp_path)) as url:
        look = look_at(url, width=PHONE)
        assert "offsite backup run" in look.go("/").inner_text("main")
        look.check()
        look.go("/jobs")
        look.check()


def test_a_damaged_repository_is_told_to_be(look_at: LookAt, tmp_path: Path) -> None:
    with full_site(tmp_path) as site:
        damage(tmp_path)
        with coordinator(Path(site.repository.store.url)) as url:
            look = look_at(url)
            assert look.go("/").locator(".verdict").inner_text().startswith("Not safe.")
            look.check()
            for path in (BASE, f"{BASE}/points"):
                answer = look.page.goto(f"{url}{path}")
                assert answer is not None
                assert answer.status in {200, 422}
                assert not look.faults()


def test_without_scripts_a_restore_is_planned(served: str, look_at: LookAt) -> None:
    look = look_at(served, java_script_enabled=False)
    page = look.go("/")
    page.get_by_role("link", name="nightly").first.click()
    page.get_by_role("link", name="Restore", exact=True).click()
    page.get_by_label("Into the cluster").select_option("dr")
    page.get_by_label("Search for topics").fill("ord")
    page.keyboard.press("Enter")
    page.get_by_label("orders", exact=True).check()
    page.get_by_label("Search for topics").fill("pay")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("radio", name="Commit 1,").check()
    page.get_by_role("button", name="See the plan").click()
    command = page.locator("pre").inner_text()
    assert "--commit=1 --topics=orders --yes" in command
    assert page.get_by_role("button", name="Restore").is_visible()


def test_with_scripts_the_line_of_time_and_the_boxes_are_direct(served: str, look_at: LookAt) -> None:
    look = look_at(served)
    page = look.go(f"{BASE}/restore")
    page.locator("[data-commit='1']").click()
    assert page.get_by_role("radio", name="Commit 1,").is_checked()
    assert page.locator(".chosen").get_attribute("data-commit") == "1"
    page.get_by_label("payments", exact=True).check()
    assert page.get_by_label("Only the ticked ones").is_checked()
    assert page.locator("[data-count]").inner_text() == "1 topic"
    page.get_by_label("Of it, only records up to").fill("2h-ago")
    page.get_by_label("Of it, only records up to").blur()
    assert ", records up to 2h-ago · into" in page.locator("#plan p").inner_text()
    page.get_by_label("Of it, only records up to").fill("")
    page.get_by_role("radio", name="All topics").check()
    look.check()
    page.get_by_role("button", name="See the plan").click()
    assert "--topics" not in page.locator("pre").inner_text(), "all were chosen last"


def test_who_has_a_token_logs_in_and_out(site: Site, look_at: LookAt, tmp_path: Path) -> None:
    token = new_token("ann:read", tmp_path / "tokens")
    with coordinator(Path(site.repository.store.url), "--token-file", tmp_path / "tokens") as url:
        look = look_at(url)
        page = look.go("/")
        assert page.url.endswith("/login")
        look.check()
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Log out").wait_for()
        look.check()
        page.get_by_role("button", name="Log out").click()
        assert page.url.endswith("/login")
