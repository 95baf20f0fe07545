from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from offsite.cli.views.operator import render_resources
from offsite.operator.core.files import FolderLayout
from offsite.operator.core.records import ResourceRecord
from offsite.operator.folder.resources import ResourceRecords, Statuses, last_look_ms
from offsite.operator.folder.views import ResourceList, list_resources
from tests.shown import shown
from tests.unit.operator.resources.bombs import BOMBS

KEY = ("Backup", "shop")
NOW_MS = 1_800_000_000_000


@pytest.fixture
def statuses(tmp_path: Path) -> Statuses:
    return Statuses(FolderLayout(root=tmp_path))


@pytest.mark.parametrize("name", BOMBS)
def test_a_status_that_somebody_wrote_costs_little_and_is_written_over(
    statuses: Statuses, tmp_path: Path, name: str
) -> None:
    (tmp_path / "backup-shop.status.yaml").write_text(BOMBS[name])
    began_s = time.process_time()

    statuses.read(*KEY)
    statuses.keep_only([])
    statuses.write(KEY, None, {"state": "running"}, now_ms=NOW_MS)
    assert time.process_time() - began_s < 2.0
    assert statuses.read(*KEY)["kind"] == "Backup"


def test_nothing_is_waited_for_where_a_status_is_a_pipe(statuses: Statuses, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "backup-shop.status.yaml")

    assert statuses.read(*KEY) == {}
    statuses.write(KEY, None, {"state": "running"}, now_ms=NOW_MS)
    assert statuses.read(*KEY)["kind"] == "Backup"


def test_the_time_of_a_look_is_noted_now_and_then(statuses: Statuses, tmp_path: Path) -> None:
    def noted(now_ms: int, state: str = "running") -> tuple[int, int]:
        statuses.write(KEY, None, {"state": state}, now_ms=now_ms)
        inode = (tmp_path / "backup-shop.status.yaml").stat().st_ino
        return last_look_ms(statuses.read(*KEY)) - NOW_MS, inode

    first = noted(NOW_MS)
    assert first[0] == 0
    assert noted(NOW_MS + 29_000) == first
    assert noted(NOW_MS + 30_000)[0] == 30_000
    assert noted(NOW_MS + 31_000, "paused")[0] == 31_000
    assert noted(NOW_MS)[0] == 0  # a clock that was set back


@pytest.mark.parametrize("text", ["", "status: 1", "status: {lastLookTime: 1}", "status: {lastLookTime: yesterday}"])
def test_a_status_that_has_no_time_of_a_look_is_of_no_time(statuses: Statuses, tmp_path: Path, text: str) -> None:
    (tmp_path / "backup-shop.status.yaml").write_text(text)

    assert last_look_ms(statuses.read(*KEY)) == -1


def backup(phase: str, **points: int) -> dict[str, object]:
    """As a status tells it, with points of so many hours."""
    told = {name: {"commit": 1, "timestamp": f"2026-11-24T{hour:02}:00:00Z"} for name, hour in points.items()}
    return {"backup": phase, "phase": phase, **told}


@pytest.mark.parametrize(
    ("going", "latest"),
    [({}, ""), ({"oldestData": 20, "latestRestorable": 21}, "2026-11-24T21:00:00Z")],
    ids=["in its first copy", "copied"],
)
def test_a_list_tells_the_newest_point_of_what_goes_on_and_not_of_what_is_on_its_way_out(
    statuses: Statuses, tmp_path: Path, going: dict[str, int], latest: str
) -> None:
    status = {
        "state": "running",
        "backups": [backup("stopped", oldestData=1, latestRestorable=23), backup("running", **going)],
    }
    statuses.write(KEY, None, status, now_ms=NOW_MS)  # type: ignore[arg-type]  # a status is any JSON
    record = ResourceRecord(kind="Backup", name="shop", uid="u", generation=7, spec={}, source="", created_ms=0)
    ResourceRecords(layout=statuses.layout).change(*KEY, lambda _: record)

    (line,) = list_resources(statuses.layout, kind=None, name=None, now_ms=NOW_MS).resources
    assert (line.oldest_data, line.latest_restorable) == ("2026-11-24T01:00:00Z", latest)
    table = shown(render_resources(ResourceList(folder="f", resources=(line,))))
    head, row = [text for text in table.splitlines() if "GENERATION" in text or "shop" in text][:2]
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    names = [cell.strip() for cell in head.strip("┃").split("┃")]
    assert names == ["KIND", "NAME", "GENERATION", "STATE", "RECONCILED", "OLDEST DATA", "LATEST RESTORABLE", "AGE"]
    assert cells[1:4] == ["shop", "7", "running"]
    assert cells[6] == (latest[:19] or "-")
