from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from offsite.operator.folder.layout import FolderLayout
from offsite.operator.folder.status import Statuses, looked_ms
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
        return looked_ms(statuses.read(*KEY)) - NOW_MS, inode

    first = noted(NOW_MS)
    assert first[0] == 0
    assert noted(NOW_MS + 29_000) == first
    assert noted(NOW_MS + 30_000)[0] == 30_000
    assert noted(NOW_MS + 31_000, "paused")[0] == 31_000
    assert noted(NOW_MS)[0] == 0  # a clock that was set back


@pytest.mark.parametrize("text", ["", "status: 1", "status: {lastLookTime: 1}", "status: {lastLookTime: yesterday}"])
def test_a_status_that_has_no_time_of_a_look_is_of_no_time(statuses: Statuses, tmp_path: Path, text: str) -> None:
    (tmp_path / "backup-shop.status.yaml").write_text(text)

    assert looked_ms(statuses.read(*KEY)) == -1
