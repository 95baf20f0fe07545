"""The page of a status: the verdict, the reasons, the plots; it needs nothing else, and others' words harm nobody."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.overview.backup_history import read_history
from offsite.overview.status import BackupStatus, Status, read_status
from offsite.overview.status_page import glance, read_glances, status_page
from tests.fake_cluster.site import Site, open_site


def page_of(site: Site) -> str:
    status = read_status(site.repository)
    glances = read_glances(status, site.repository.backup)
    return status_page(status, glances, site.repository.store.now_ms())


def test_it_says_yes_and_shows_how_it_came(tmp_path: Path) -> None:
    with open_site(tmp_path) as site:
        site.source.make_topic("orders", **{"retention.ms": "3600000"})
        site.source.write("orders", [b"a"])
        site.back_up("*")
        site.source.write("orders", [b"b"])
        site.back_up()
        page = page_of(site)
    assert "Safe, never proven. 1 backup, newest restore point" in page
    titles = re.findall("<figcaption>(.*?)[:,<]", page)
    assert titles == [
        "Recovery point",
        "Headroom",
        "Age of the newest record of each commit",
        "Backed up per second",
        "Backed up per second",
        "Stored bytes by topic",
        "Age of proof",
    ]
    assert page.count('<svg class="plot"') == 4, "nothing is proven, and no cluster was named"
    assert "records of orders that are not backed up (the topic keeps records for 1 h" in page
    assert "no checkpoint yet" in page
    assert "src=" not in page
    assert "href=" not in page


def test_it_says_why_not_and_lets_nobody_write_into_it() -> None:
    hostile = "<script>alert(1)</script>\x1b[2J"
    bad = BackupStatus(
        backup=hostile, safe=False, problems=(hostile,), restorable_from_ms=0, restorable_to_ms=0, age_s=-5
    )
    page = status_page(Status(repository=hostile, safe=False, backups=(bad,)), {}, 1)
    assert "Not safe. 1 of 1 backups needs attention." in page
    assert "<script" not in page
    assert "\x1b" not in page


@pytest.mark.parametrize("file", ["status.html", "none/status.html"])
def test_the_command_writes_it_whole_or_says_why_not(tmp_path: Path, file: str) -> None:
    with open_site(tmp_path) as site:
        site.source.make_topic("orders")
        site.back_up("*")
        done = CliRunner().invoke(app, ["status", "--repo", site.repository.store.url, "--html", str(tmp_path / file)])
    if "/" in file:
        assert done.exit_code != 0
        return
    assert "Am I safe?" in (tmp_path / file).read_text()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["repository", "status.html"]


def test_a_page_takes_the_place_of_no_device_and_no_pipe(tmp_path: Path) -> None:
    file = tmp_path / "status.html"
    os.mkfifo(file)
    with open_site(tmp_path) as site:
        done = CliRunner().invoke(app, ["status", "--repo", site.repository.store.url, "--html", str(file)])
    assert f"{file} cannot be written: it is a pipe" in str(done.exception)
    assert file.is_fifo()


@pytest.mark.parametrize(
    ("made", "expected"),
    [(None, 0o600), (0o644, 0o644)],
)
def test_its_file_is_for_its_owner_alone_unless_somebody_has_given_it_another_mode(
    tmp_path: Path, made: int | None, expected: int
) -> None:
    file = tmp_path / "status.html"
    if made is not None:
        file.touch(mode=made)
        file.chmod(made)
    with open_site(tmp_path) as site:
        CliRunner().invoke(app, ["status", "--repo", site.repository.store.url, "--html", str(file)])
    assert file.stat().st_mode & 0o777 == expected


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ({}, "unknown: a broker default, which the backup does not record"),
        ({"retention.ms": "-1"}, "nothing"),
        ({"cleanup.policy": "compact"}, "nothing"),
        ({"retention.ms": "7200000"}, "records of orders that are not backed up (the topic keeps records for 2 h"),
    ],
)
def test_it_says_when_the_source_deletes_what_is_not_backed_up(
    tmp_path: Path, configs: dict[str, str], said: str
) -> None:
    with open_site(tmp_path) as site:
        site.source.make_topic("orders", **configs)
        site.back_up("*")
        told = glance(site.backup, read_history(site.backup)).facts["Source deletes by age"]
    assert said in told, told
