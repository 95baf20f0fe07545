from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from offsite.operator.folder.layout import FolderLayout
from offsite.operator.folder.status import Statuses
from tests.unit.operator.resources.bombs import BOMBS

KEY = ("Backup", "shop")


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
    statuses.write(KEY, None, {"state": "running"})
    assert time.process_time() - began_s < 2.0
    assert statuses.read(*KEY)["kind"] == "Backup"


def test_nothing_is_waited_for_where_a_status_is_a_pipe(statuses: Statuses, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "backup-shop.status.yaml")

    assert statuses.read(*KEY) == {}
    statuses.write(KEY, None, {"state": "running"})
    assert statuses.read(*KEY)["kind"] == "Backup"
