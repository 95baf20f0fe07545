"""Everything that offsite reads of a repository when it opens it, shows it, verifies it deep and gives its records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from offsite.model.selection import TopicSelection
from offsite.overview.contents import show_backup
from offsite.overview.status import read_status
from offsite.repository.backup import Backup
from offsite.repository.repository import Repository
from offsite.repository.snapshots.group_snapshot import get_group_snapshot
from offsite.repository.snapshots.named_object import get_cluster_snapshot
from offsite.repository.state import BackupState
from offsite.restore.request import RestoreRequest
from offsite.table.search import RecordsRequest, cat_records, plan_records
from offsite.upkeep.verification.run import VerifyResult, verify_deep, verify_quick
from tests.backups import content
from tests.fuzz.places import MemoryStore
from tests.fuzz.reading import Reading
from tests.fuzz.target import Files
from tests.inline_runner import InlineRunner

RECORDS_MAX = 10_000


def read_repository(files: Files) -> Reading:
    store, found = MemoryStore(files), Reading()
    with found.part():
        repository = Repository.open(store)
        found.data["repository"] = repository.descriptor
        found.data["backups"] = repository.backups()
        with found.part():
            status = read_status(repository)
            found.named += [problem for each in status.backups for problem in each.problems if "OFF-" in problem]
        for name in repository.backups():
            with found.part():
                _read_backup(repository.backup(name), name, found)
    return found


def _read_backup(backup: Backup, name: str, found: Reading) -> None:
    found.data[f"{name} descriptor"] = backup.descriptor
    with found.part():
        _take_verdict(verify_quick(backup), found)
    with found.part():
        verdict = verify_deep(backup, InlineRunner())
        found.data[f"{name} counts"] = (verdict.commits, verdict.segments, verdict.records, verdict.bytes)
        found.data[f"{name} unproven"] = verdict.unproven
        _take_verdict(verdict, found)
    with found.part():
        found.data[f"{name} shown"] = show_backup(backup, with_settings=True)
    head = backup.state()
    for seq in [each.seq for each in head.history][:10]:
        with found.part():
            found.data[f"{name} state {seq}"] = plain_state(backup.state_at(seq, head=head))
    with found.part():
        found.data[f"{name} bytes"] = content(backup.store, head)
    with found.part():
        _read_snapshots(backup, head, name, found)
    with found.part():
        topics = tuple(sorted({known.topic for known in head.topics}))
        request = RecordsRequest(point=RestoreRequest(selection=TopicSelection(include=topics)), limit=RECORDS_MAX)
        found.data[f"{name} records"] = list(cat_records(plan_records(backup, request)))


def _read_snapshots(backup: Backup, head: BackupState, name: str, found: Reading) -> None:
    if head.metadata is not None:
        found.data[f"{name} settings"] = get_cluster_snapshot(backup.store, head.metadata)
    if head.groups is not None:
        found.data[f"{name} groups"] = get_group_snapshot(backup.store, head.groups)


def _take_verdict(verdict: VerifyResult, found: Reading) -> None:
    """What verify found is named damage; what it says that nothing vouches for is no damage."""
    found.named += [f"{each.key}: {each.problem}" for each in verdict.damaged]
    found.named += [f"{each.key}: {each.problem}" for each in verdict.damaged_snapshots]
    found.named += [f"unaccounted: {each}" for each in verdict.unaccounted]
    if not verdict.ok and not found.named:
        found.named.append(f"verify: {verdict.verdict}")
    found.hear(_texts(asdict(verdict)))


def _texts(value: Any) -> Iterable[str]:
    """All texts of a result, and the names of its fields that are not empty: whatever says that nothing vouches."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, child in value.items():
            if child:
                yield str(key)
                yield from _texts(child)
    elif isinstance(value, list | tuple):
        for child in value:
            yield from _texts(child)


def plain_state(state: BackupState) -> dict[str, object]:
    """A state as plain values, its segments out of whatever holds them; without the hash that chains it."""
    return {
        "seq": state.seq,
        "committed_at_ms": state.committed_at_ms,
        "topics": dict(state.topics),
        "positions": dict(state.positions),
        "segments": {known: tuple(found) for known, found in state.segments.items()},
        "holes": state.holes,
        "left_behind": state.left_behind,
        "checkpoints": state.checkpoints,
        "groups": state.groups,
        "metadata": state.metadata,
        "history": tuple(state.history),
    }
