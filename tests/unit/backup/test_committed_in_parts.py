"""A pass that commits as it goes commits what one would that looks at everything again each time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import assume, given
from hypothesis import strategies as st

from offsite.backup.copy import BackupReceipt, bundle_copies
from offsite.backup.copy_pass import (
    BackupOutcome,
    Committable,
    CommitThresholds,
    CopyPass,
    PassSummary,
    find_committable,
)
from offsite.backup.copy_plan import CopyPlan, CopyTask
from offsite.engine.runner import Done, Failed
from offsite.log.batch import LastBatch
from offsite.log.range import Gap, GapEvidence, Hole, LogRange, PartitionId
from offsite.model.clock import SystemClock
from offsite.model.errors import LeaderUnavailable
from offsite.repository.state import BackupState
from tests.examples import examples
from tests.unit.backup.test_committable import bounds
from tests.unit.restore.test_restore_plan import partition, segment

TASKS, STEP = 5, 8
NEVER = CommitThresholds(bytes=1 << 60, segments=1 << 60, seconds=1e9)


def plan() -> CopyPlan:
    """Two partitions in turns, each of `TASKS` ranges of `STEP` offsets, and a hole in front that the plan knows."""
    tasks = tuple(
        CopyTask(topic_id="id-1", range=LogRange(topic=topic, partition=0, start=start, end=start + STEP), **size)
        for start in range(STEP, STEP * (TASKS + 1), STEP)
        for topic, size in (("a", {"estimated_bytes": 1}), ("b", {"estimated_bytes": 1}))
    )
    hole = Hole(topic="a", partition=0, start=0, end=STEP, reason="retention")
    both = tuple(bounds(topic, end=STEP * (TASKS + 1), log_start=STEP) for topic in ("a", "b"))
    return CopyPlan(tasks=tasks, holes=(hole,), bounds=both, starts={PartitionId("a", "id-1", 0): 0})


PLAN = plan()


@st.composite
def outcomes_of(draw: st.DrawFn, number: int) -> Done[BackupReceipt] | Failed:
    """Mostly whole; else with something left out, read twice, of another log, or not at all."""
    if draw(st.integers(0, 19)) == 0:
        return Failed(error=LeaderUnavailable("gone"), trace="")
    own = PLAN.tasks[number].range
    where = {"topic": own.topic, "partition": 0}
    segments, holes, gaps, at = [], list[Hole](), list[Gap](), own.start
    epoch = own.start // STEP - (draw(st.integers(0, 9)) == 0) * 3
    while at < own.end:
        end = min(own.end, at + draw(st.integers(1, STEP))) + (draw(st.integers(0, 5)) == 0) * draw(st.integers(0, 3))
        match draw(st.sampled_from("sssshgx")):
            case "s":
                written = segment(partition(own.topic, 0), at, end)
                written = replace(written, key=f"{number}-{len(segments)}", leader_epochs=(max(0, epoch),))
                segments.append(replace(written, end=max(written.end, min(own.end, end + 2))))
            case "h":
                holes.append(Hole(**where, start=at, end=end, reason="retention"))
            case "g":
                gaps.append(Gap(**where, start=at, end=end, evidence=GapEvidence.BATCH, seen_at=end))
            case _:
                end = at if draw(st.integers(0, 3)) else end  # mostly nothing is missing
        at = max(end, at + (end == at and draw(st.booleans())))
    last = LastBatch(last_offset=segments[-1].last_offset, crc=number) if segments else None
    return Done(value=BackupReceipt(segments=tuple(segments), holes=tuple(holes), gaps=tuple(gaps), last_batch=last))


@dataclass
class Again:
    """Looks at all that has ended, each time, and knows what it has committed by keys and values."""

    outcomes: list[BackupOutcome] = field(default_factory=lambda: [None] * len(PLAN.tasks))
    committed: list[Committable] = field(default_factory=list)

    def new(self) -> Committable:
        found = find_committable(PLAN, self.outcomes)
        keys = {each.key for before in self.committed for each in before.segments}
        holes = {each for before in self.committed for each in before.holes}
        gaps = {each for before in self.committed for each in before.gaps}
        return replace(
            found,
            segments=tuple(each for each in found.segments if each.key not in keys),
            holes=tuple(each for each in found.holes if each not in holes),
            gaps=tuple(each for each in found.gaps if each not in gaps),
            progress={},
            completed_tasks=(),
        )


@examples(100)
@given(st.data())
def test_parts_are_what_looking_at_everything_again_finds(data: st.DataObject) -> None:
    found = [data.draw(outcomes_of(number)) for number in range(len(PLAN.tasks))]
    assume(any(isinstance(each, Done) for each in found))  # else the error itself is raised
    order = data.draw(st.permutations(range(len(found))))
    made, again, wholes = list[Committable](), Again(), list[PassSummary]()

    def commit(new: Committable, base: BackupState, whole: PassSummary | None) -> BackupState:
        made.append(replace(new, progress={}, completed_tasks=()))
        wholes.extend([whole] if whole is not None else [])
        return base

    bundles = bundle_copies(PLAN.tasks, slots=1, packed_from=1000)
    base = BackupState(backup="b")
    copying = CopyPass(copy=PLAN, bundles=bundles, base=base, commit=commit, thresholds=NEVER, clock=SystemClock())
    for number in order:
        again.outcomes[number] = found[number]
        outcome = found[number]
        copying.take(number, outcome if isinstance(outcome, Failed) else Done(value=(outcome,)))
        if data.draw(st.booleans()):
            expected = again.new()
            copying.save()
            if expected.segments or expected.holes or expected.gaps:
                again.committed.append(replace(expected, failed=()))
    again.committed.append(again.new())
    ended = copying.complete()
    assert made == again.committed
    assert wholes == [ended]
    assert ended.failed == again.committed[-1].failed
    assert ended.holes == tuple(hole for each in again.committed for hole in each.holes)
    assert (ended.segments, ended.figures.records) == (
        len([each for before in again.committed for each in before.segments]),
        sum(each.records for before in again.committed for each in before.segments),
    )
    assert (ended.receipts is None) == any(isinstance(each, Failed) for each in found)


def test_a_range_of_which_a_part_is_committed_is_looked_at_again() -> None:
    """What lies between was not accounted for; another range tells of it."""
    written = [replace(segment(partition("a", 0), start, end), key=str(start)) for start, end in ((8, 12), (14, 16))]
    gap = Gap(topic="a", partition=0, start=12, end=2 * STEP + 1, evidence=GapEvidence.BATCH, seen_at=2 * STEP + 1)
    outcomes: list[BackupOutcome] = [None] * len(PLAN.tasks)
    outcomes[0] = Done(value=BackupReceipt(segments=tuple(written), holes=()))
    first = find_committable(PLAN, outcomes)
    assert ([each.key for each in first.segments], first.completed_tasks) == (["8"], ())
    outcomes[2] = Done(value=BackupReceipt(segments=(), holes=(), gaps=(gap,)))
    second = find_committable(PLAN, outcomes, first.progress)
    assert ([each.key for each in second.segments], second.completed_tasks) == (["8", "14"], (0, 2))
