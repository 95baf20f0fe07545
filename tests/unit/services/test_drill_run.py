"""A drill that fails: what that says of the backup."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from offsite.model.clock import SystemClock
from offsite.model.errors import BadOption, DamagedObject, KafkaUnreachable, OffsiteError
from offsite.model.selections.selection import parse_selection
from offsite.services.drill.report import DrillReport
from offsite.services.drill.run import Drill, DrillRequest
from offsite.stores.posix_store import open_folder
from tests.backups import new_backup, run_once


@pytest.mark.parametrize(
    ("error", "proven"),
    [(DamagedObject("a segment is cut"), False), (KafkaUnreachable("no broker"), None), (BadOption("no"), None)],
)
def test_only_damage_is_evidence_against_a_backup(error: OffsiteError, proven: bool | None, tmp_path: Path) -> None:
    def fail() -> None:
        raise error

    backup = new_backup(open_folder(tmp_path / "repository"))
    run_once(backup)
    reports: list[DrillReport] = []
    drill = Drill(
        backup,
        DrillRequest(selection=parse_selection(["*"]), commit=None, in_sandbox=True, by="me"),
        cluster=cast("Any", SimpleNamespace(admin=SimpleNamespace(cluster=fail))),
        runner=cast("Any", None),
        clock=SystemClock(),
        on_report=reports.append,
    )
    with pytest.raises(type(error)):
        drill.run()
    assert [(each.proven, each.problem) for each in reports] == [(proven, error.message)]
