"""A drill that fails: what that says of the backup."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from offsite.model.clock import SystemClock
from offsite.model.errors import BadOption, DamagedObject, KafkaUnreachable, OffsiteError, PartitionsFailed
from offsite.model.selection import parse_selection
from offsite.restore.drill import Drill, DrillRequest
from offsite.restore.drill_report import DrillReport
from offsite.stores.posix_store import open_folder
from tests.backups import new_backup, run_once
from tests.fake_cluster.site import Site


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


@pytest.mark.parametrize("damaged", [1, 2, 3])
def test_damage_is_evidence_however_many_partitions_have_it(damaged: int, site: Site, tmp_path: Path) -> None:
    """Where some fail, and not all, the drill ends with an error that is about all of them."""
    for number in range(3):
        site.source.make_topic(f"t{number}")
        site.source.write(f"t{number}", [b"%d" % number] * 50)
    site.back_up("*")
    for body in sorted((tmp_path / "repository").rglob("*.log*"))[:damaged]:
        body.chmod(0o600)
        body.write_bytes(b"\xff" * body.stat().st_size)
    reports: list[DrillReport] = []
    drill = Drill(
        site.backup,
        DrillRequest(selection=parse_selection(["*"]), commit=None, in_sandbox=True, by="me"),
        cluster=site.target.connected,
        runner=site.runner,
        clock=SystemClock(),
        on_report=reports.append,
    )
    with pytest.raises(PartitionsFailed if damaged == 2 else DamagedObject):
        drill.run()
    assert [each.proven for each in reports] == [False]
