"""What `offsite verify` says first, its exit code and its JSON agree in every case."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.cli.output import OutputFormat, emit
from offsite.cli.views.verify import render_verification
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges, Position
from offsite.repository.snapshots.group_snapshot import put_group_snapshot
from offsite.restore.compare.run import CompareResult
from offsite.stores.posix_store import PosixStore, open_folder
from offsite.upkeep.verification.history import CommitDamage, ObjectDamage
from offsite.upkeep.verification.run import VerifyResult, verify_quick
from tests.backups import PARTITIONS, append_unchecked, new_backup, run_once
from tests.shown import shown

DAMAGED = 13
PARTIAL = 3


@pytest.fixture
def store(tmp_path: Path) -> PosixStore:
    return open_folder(tmp_path / "repository")


def lose_a_segment(backup: Backup) -> None:
    backup.store.delete(next(iter(backup.state().all_segments())).key)


def lose_the_groups(backup: Backup) -> None:
    base = backup.state()
    groups = put_group_snapshot(backup.store, backup.layout, base.seq + 1, {})
    backup.commit(CommitChanges(groups=groups), base=base, writer="w")
    backup.store.delete(groups)


def name_groups_outside(backup: Backup) -> None:
    """As no writer of ours does."""
    base = backup.state()
    append_unchecked(
        backup, base, CommitChanges(groups="backups/b/groups/elsewhere"), committed_at_ms=base.committed_at_ms
    )


def pass_over_offsets(backup: Backup) -> None:
    """As no writer of ours does: it would be refused."""
    base = backup.state()
    moved = Position(partition_id=PARTITIONS[0], log_start=0, end=base.positions[PARTITIONS[0]].end + 7)
    changes = CommitChanges(positions=(moved,), accounted=True)
    append_unchecked(backup, base, changes, committed_at_ms=base.committed_at_ms)


CASES: list[tuple[Callable[[Backup], object], int, str]] = [
    (lambda _: None, 0, "quick check: ok ("),
    (lose_a_segment, DAMAGED, "quick check: 1 of 3 segments are DAMAGED ("),
    (lose_the_groups, DAMAGED, "quick check: 1 snapshot is DAMAGED ("),
    (name_groups_outside, DAMAGED, "quick check: 1 snapshot is DAMAGED ("),
    (pass_over_offsets, DAMAGED, "quick check: 1 range of offsets is NOT ACCOUNTED FOR ("),
]


@pytest.mark.parametrize(("harm", "code", "headline"), CASES)
def test_the_headline_agrees_with_the_exit_code(
    store: PosixStore, harm: Callable[[Backup], object], code: int, headline: str
) -> None:
    backup = new_backup(store)
    run_once(backup)
    harm(backup)
    command = ["verify", "--repo", str(store.root), "--backup", "b"]
    told, listed = (CliRunner().invoke(app, [*command, *more]) for more in ([], ["-o", "json"]))
    assert headline in told.stdout
    assert told.exit_code == listed.exit_code == code
    document = json.loads(listed.stdout)
    assert (document["ok"], document["verdict"]) == ((True, "ok") if code == 0 else (False, "damaged"))


@pytest.mark.parametrize(
    ("verified", "verdict", "headline"),
    [
        (True, "ok", "check: ok ("),
        (False, "different", "cluster is DIFFERENT"),
        (None, "unknown", "NOT fully COMPARED"),
    ],
)
def test_a_comparison_is_in_the_headline(store: PosixStore, verified: bool | None, verdict: str, headline: str) -> None:
    backup = new_backup(store)
    run_once(backup)
    result = replace(verify_quick(backup), ok=verified is True, against=compared(verified))
    assert result.verdict == verdict
    assert headline in first_line(result)


def compared(verified: bool | None) -> CompareResult:
    return CompareResult(
        verified=verified,
        commit=1,
        restore="",
        cluster_id="c",
        exact=False,
        records=0,
        compared_records=0,
        compared_partitions=0,
        empty_partitions=0,
        same_offsets=(),
        by_name=(),
        topics={},
        findings=(),
        uncompared=(),
        lacking=(),
    )


def first_line(result: VerifyResult) -> str:
    return shown(render_verification(result, listed=False)).splitlines()[0]


def test_what_damage_means_has_a_line_of_its_own(store: PosixStore, capsys: pytest.CaptureFixture[str]) -> None:
    backup = new_backup(store)
    run_once(backup)
    result = replace(
        verify_quick(backup),
        damaged_commits=(CommitDamage(first_commit=1, last_commit=2, problem="not JSON"),),
        damaged_objects=(ObjectDamage(key="backups/b/drills/1/report.json", problem="cut"),),
    )
    emit(result, output=OutputFormat.TABLE, render=partial(render_verification, listed=False))
    lines = capsys.readouterr().out.splitlines()
    for first, second in (
        ("  DAMAGED commit: not JSON", "    restore points 1 to 2 cannot be used"),
        ("  DAMAGED object: cut", "    backups/b/drills/1/report.json"),
    ):
        assert lines[lines.index(first) + 1] == second
