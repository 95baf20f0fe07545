"""Retention over random histories; and that the judge of them sees each of the mistakes one might make."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from offsite.repository.backup import Backup
from offsite.repository.fold import StateBuilder
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState
from offsite.upkeep.collection import plan as collect_plan
from offsite.upkeep.collection import run as collect_run
from offsite.upkeep.retention import apply, mirror, needs, plan
from offsite.upkeep.retention.kept_points import KeptPoints
from offsite.upkeep.retention.mirror import StoredPartition
from tests.worlds.source_events.retaining import problem_of

HISTORIES = 10
MANY = 10_000
SEEN_WITHIN = 12


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger="offsite")


def test_what_is_kept_is_whole_wherever_a_retention_breaks_off() -> None:
    assert [problem for number in range(HISTORIES) if (problem := problem_of(number))] == []


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(2))
def test_what_is_kept_is_whole_over_many_histories(first: int) -> None:
    assert [problem for number in range(first, MANY, 2) if (problem := problem_of(number))] == []


Patch = pytest.MonkeyPatch


def _objects_before_the_commit(patch: Patch) -> None:
    carry_out = apply.carry_out

    def deletes_first(backup: Backup, made: plan.RetentionPlan, *, base: BackupState, force: bool = False) -> Any:
        for each in made.expired:
            for segment in base.segments.get(each.partition_id, ()):
                if each.start <= segment.start and segment.end <= each.end and segment.pack is None:
                    backup.store.delete(segment.key)
        return carry_out(backup, made, base=base, force=force)

    patch.setattr(apply, "carry_out", deletes_first)


def _each_partition_decides_alone(patch: Patch) -> None:
    """Only what the newest point needs is asked for."""
    patch.setattr(plan, "unbroken_runs", lambda history, _: [(history[-1].seq, history[-1].seq + 1)])


def _no_grace(patch: Patch) -> None:
    patch.setattr(collect_plan, "_newest_old_enough", lambda _, head, *__: head.seq - head.loose_commits)
    patch.setattr(collect_plan._Planning, "_is_older", lambda *_: True)


def _pins_are_ignored(patch: Patch) -> None:
    patch.setattr(plan, "choose_pinned", lambda *_, **__: [])
    patch.setattr(StateBuilder, "_pin", lambda *_: None)  # which would refuse the commit


def _ages_count_from_now(patch: Patch) -> None:
    reckoned = plan.reckon

    def from_now(head: BackupState, complete: Any, *, now_ms: int) -> Any:
        return replace(reckoned(head, complete, now_ms=now_ms), from_ms=now_ms)

    patch.setattr(plan, "reckon", from_now)


def _half_a_pack_is_enough(patch: Patch) -> None:
    """An object goes as soon as one of those who share it is gone."""
    for module in (collect_plan, collect_run):
        patch.setattr(module, "find_needed", lambda *_: iter((frozenset(),)))
    patch.setattr(collect_plan._DataHolders, "take", lambda *_: True)


def _branches_are_forgotten(patch: Patch) -> None:
    patch.setattr(
        needs,
        "history_segments",
        lambda head, known, _: head.segments.get(known.partition_id, needs.SegmentList()),
    )


def _borders_are_offsets(patch: Patch) -> None:
    """A batch that reaches over the end of its segment is not asked for."""

    def overlapping(segments: tuple[Segment, ...], start: int, end: int) -> list[Segment]:
        return [each for each in segments if each.start < end and start < each.end]

    patch.setattr(needs, "overlapping", overlapping)


def _one_more_point_goes(patch: Patch) -> None:
    """The oldest that an age keeps goes too: the border was off by one."""
    told = plan.merge_chosen

    def one_less(history: Any, chosen: Any) -> tuple[KeptPoints, ...]:
        found = told(history, chosen)
        return found[1:] if len(found) > 1 and found[0].rule == "age" else found

    patch.setattr(plan, "merge_chosen", one_less)


def _what_is_there_still_goes(patch: Patch) -> None:
    """The newest point's need is not asked for: what the topic holds goes by its age."""
    patch.setattr(plan, "add_needs", lambda *_: None)
    patch.setattr(StoredPartition, "_may_go", lambda *_: True)
    patch.setattr(mirror.ExpiringRanges, "below", lambda *_: 1 << 40)


def _the_log_start_of_the_last(patch: Patch) -> None:
    """A run of points needs what the last of them does."""
    add = plan.add_needs

    def from_last(found: needs.Needs, spans: Any) -> None:
        add(found, ((known, (max(start, end - 1), end)) for known, (start, end) in spans))

    patch.setattr(plan, "add_needs", from_last)


BUGS: tuple[tuple[Callable[[Patch], None], int], ...] = (
    (_objects_before_the_commit, 12),
    (_each_partition_decides_alone, 0),
    (_no_grace, 0),
    (_pins_are_ignored, 0),
    (_ages_count_from_now, 62),
    (_half_a_pack_is_enough, 0),
    (_branches_are_forgotten, 0),
    (_borders_are_offsets, 233),
    (_one_more_point_goes, 0),
    (_what_is_there_still_goes, 0),
    (_the_log_start_of_the_last, 0),
)
"""Each mistake, and a history from which on it is seen soon."""


@pytest.mark.parametrize(("bug", "first"), BUGS, ids=[bug.__name__.strip("_") for bug, _ in BUGS])
def test_the_judge_sees(bug: Callable[[Patch], None], first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    assert any(problem_of(number) for number in range(first, first + SEEN_WITHIN)), "nobody saw it"
