"""Random schedules with retention: what must stay stays, wherever it is broken off and whoever commits beside it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

from offsite.model.errors import BelowFloor, ClockStep, CommitLost
from offsite.repository import catalog
from offsite.repository.backup import Backup
from offsite.repository.commit import TopicShape
from offsite.repository.state import BackupState
from offsite.upkeep.retention.apply import apply_retention, plan_retention
from offsite.upkeep.retention.pins import pin_point
from offsite.upkeep.retention.policy import RetentionPolicy
from tests.memory_store import MemoryStore
from tests.worlds.source_events.kept import RetentionJudge
from tests.worlds.source_events.play import BrokenOffError, Play, small

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_WRONG_CLOCKS = 5
"""In one of so many schedules the clock jumps."""
_BUCKETS_MS = {"hourly": HOUR_MS, "daily": DAY_MS}


class Meddling:
    """A store in which something happens right before change number `at`, counted from 0."""

    def __init__(self, store: Any, *, at: int, what: Callable[[], object]) -> None:
        self._store, self._left, self._what = store, at, what
        self.is_done = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _change(self) -> None:
        self._left -= 1
        if self._left < 0 and not self.is_done:
            self.is_done = True
            self._what()

    def put_if_absent(self, key: str, data: Any) -> Any:
        self._change()
        return self._store.put_if_absent(key, data)

    def put_overwrite(self, key: str, data: Any) -> None:
        self._change()
        self._store.put_overwrite(key, data)

    def delete(self, key: str) -> None:
        self._change()
        self._store.delete(key)


def _kill() -> None:
    raise BrokenOffError


@dataclass
class RetentionPlay(Play):
    """A schedule in which time passes, topics let go of their records, and retention follows."""

    judge: RetentionJudge = field(default_factory=RetentionJudge)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.retaining = random.Random(-1 - self.number)
        self.setting = random.Random(f"settings {self.number}")
        self.source.configs = {
            "a": {"cleanup.policy": "delete", "retention.ms": str(2 * HOUR_MS)},
            "b": {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "200"},
        }
        self.pins: dict[int, int] = {}
        self.clocks = random.Random(f"clocks {self.number}")
        self.ahead_ms = 0

    @property
    def store(self) -> MemoryStore:
        return self.repository.store  # type: ignore[return-value]

    def play(self) -> None:
        self.source.make("a", 1)
        with small(commits_per_catalog=(2, 100, 5, 100)[self.number % 4]):
            for _ in self._steps(5, 16):
                self._happen()
                if self.random.random() < 0.5:
                    self._back_up()
                if self.retaining.random() < 0.3:
                    self._retain_somehow()
            self.source.hidden.clear()
            self.source.shut.clear()
            for _ in range(2):
                self._back_up(quiet=True)
                self._roll_up()
            if self.judge.points:
                self._retain_at_each_step()
                self._end()

    def _chances(self) -> dict[str, random.Random]:
        return {**super()._chances(), "retaining": self.retaining, "setting": self.setting, "clocks": self.clocks}

    def _broken_off(self) -> Iterable[int]:
        """Before which changes of a retention it is broken off: before each, or one that is drawn."""
        return range(20) if self.left_out is None else [self.retaining.randrange(8)]

    def _happen(self) -> None:
        super()._happen()
        if self.retaining.random() < 0.5:
            hours = self.retaining.choice((0.05, 0.3, 1, 5, 30))
            self.store.clock.pass_ms(int(hours * HOUR_MS))
            self._tell(f"{hours} hours pass")
        if self.setting.random() < 0.15:
            hours = self.setting.choice((1, 2, 6, 48))
            self.source.configs["a"]["retention.ms"] = str(hours * HOUR_MS)
            self._tell(f"a keeps {hours} hours from now on")
        if self.has_wrong_clock and self.clocks.random() < 0.15:
            self._turn_clock(self.clocks.choice((0, HOUR_MS, -HOUR_MS, 40 * DAY_MS, -40 * DAY_MS, 1000 * DAY_MS)))

    @property
    def has_wrong_clock(self) -> bool:
        """Whether the clock of the store, which is the machine's, jumps now and then."""
        return self.number % _WRONG_CLOCKS == 0

    def _turn_clock(self, ahead_ms: int) -> None:
        self.store.clock.pass_ms(ahead_ms - self.ahead_ms)
        self.ahead_ms = ahead_ms
        self._tell(f"the clock is {ahead_ms / HOUR_MS:.0f} hours ahead")

    def _now_ms(self) -> int:
        """As producers know it, whose clocks are right."""
        return self.store.clock.now_ms() - self.ahead_ms

    def _roll_up(self) -> None:
        super()._roll_up()
        self._note()

    def _note(self) -> None:
        """Tell the judge of commits that brought nothing."""
        if self.judge.points:
            for line in self.repository.backup("sim").state().history:
                if line.seq not in self.judge.points:
                    self.judge.note_next(line.seq, time_ms=line.committed_at_ms)

    def _policy(self) -> RetentionPolicy:
        draw = self.retaining
        policy = RetentionPolicy(
            keep_age_ms=draw.choice((None, HOUR_MS // 2, 3 * HOUR_MS, DAY_MS)),
            hourly=draw.choice((0, 0, 3)),
            daily=draw.choice((0, 0, 2)),
            max_bytes=draw.choice((None, None, None, 0, 300, 2000)),
            floor_ms=draw.choice((0, 0, 0, HOUR_MS)),
        )
        return RetentionPolicy(max_bytes=policy.max_bytes) if draw.random() < 0.4 else policy

    def _retain_somehow(self) -> None:
        """A retention: whole, broken off, or with somebody else's commit in the middle; a pin now and then."""
        if not self.judge.points:
            return
        if self.retaining.random() < 0.2:
            self._pin()
        others = (lambda: self._back_up(quiet=True), self._roll_up, self._collect, self._retain, self._pin, _kill)
        what = self.retaining.choice((None, *others))
        backup = self.repository.backup("sim")
        if what is not None:
            at = self.retaining.randrange(6)
            backup = replace(backup, store=Meddling(self.store, at=at, what=what))
        with suppress(BrokenOffError, CommitLost):
            self._retain(backup, is_alone=what in {None, _kill, self._collect})
        self._note()
        self.judge.compare_all(self.repository.backup("sim"))

    def _pin(self) -> None:
        backup = self.repository.backup("sim")
        seq = self.retaining.choice([line.seq for line in backup.state().history])
        until_ms = self.retaining.choice((0, self.store.clock.now_ms() + 2 * HOUR_MS))
        pin_point(backup, seq, reason="sim", until_ms=until_ms)
        self._note()
        self.pins[seq] = until_ms
        self._tell(f"pin {seq} until {until_ms}")

    def _retain(
        self, backup: Backup | None = None, policy: RetentionPolicy | None = None, *, is_alone: bool = True
    ) -> None:
        backup, policy = backup or self.repository.backup("sim"), policy or self._policy()
        self._note()
        before, now_ms = self.repository.backup("sim").state(), self.store.clock.now_ms()
        promised = must_stay(before, self.judge, policy, now_ms=now_ms) if is_alone else set()
        if policy.mirrors and policy.max_bytes is None and is_alone:
            promised |= set(promised_by_topics(self.repository.backup("sim"), before, self.judge, now_ms=now_ms))
        self._tell(f"retain {policy}")
        try:
            clock = self.store.clock
            plan = plan_retention(backup, policy, clock=clock)
            rested = bool(plan.clock_step) and not plan.below_floor and not self.has_wrong_clock
            apply_retention(backup, plan, clock=clock, force=rested)
        except BelowFloor:
            assert policy.floor_ms, "refused by a floor that is none"
        except ClockStep:
            self._tell("refused: a step of the clock")
        self._note()
        after = self.repository.backup("sim").state()
        self._tell(f"kept {[line.seq for line in after.history]} of {[line.seq for line in before.history]}")
        pinned = {seq for seq, until_ms in self.pins.items() if not until_ms or self.store.clock.now_ms() < until_ms}
        pinned &= {line.seq for line in before.history}  # a pin may have ended before the clock was put back
        for seq in pinned | promised:
            assert after.history.find(seq) is not None, f"commit {seq} is gone, and {policy} keeps it"

    def _retain_at_each_step(self) -> None:
        """The same retention, broken off before each of its changes: all that is kept then is whole, and the next one
        ends as if nothing had been."""
        policy, whole = self._policy(), deepcopy((self.repository, self.judge))
        self._retain(policy=policy)
        wanted = [line.seq for line in self.repository.backup("sim").state().history]
        for at in self._broken_off():
            self.repository, self.judge = deepcopy(whole)
            backup = self.repository.backup("sim")
            store = Meddling(self.store, at=at, what=_kill)
            with suppress(BrokenOffError):
                self._retain(replace(backup, store=store), policy)  # type: ignore[arg-type]
            if not store.is_done:
                return
            self._note()
            self.judge.compare_all(backup)
            self._retain(policy=policy)
            self.judge.compare_all(backup)
            found = [line.seq for line in backup.state().history]
            assert wanted[0] <= found[0] or policy.mirrors, f"broken off at {at}: kept {found}, not {wanted}"
        assert self.left_out is not None, "a retention of more than 20 changes"

    def _end(self) -> None:
        """After all grace nothing is left that no kept point needs."""
        policy = RetentionPolicy(keep_age_ms=self.retaining.choice((0, HOUR_MS, DAY_MS)))
        self._retain(policy=policy)
        before = self.repository.backup("sim").state().seq
        with mock.patch.object(catalog, "COMMITS_PER_CATALOG", 1):
            for _ in range(3):
                self._back_up(quiet=True)
                self._note()
        self.store.clock.pass_ms(DAY_MS)
        self._collect(grace_ms=0)
        backup = self.repository.backup("sim")
        self.judge.compare_all(backup)
        self._check_all()
        # later commits name catalogs with what was let go; what is dated ahead, by a clock that was, waits
        if backup.state().seq > before + 1 and not self.has_wrong_clock:
            self._assert_small(backup)

    def _assert_small(self, backup: Backup) -> None:
        head = backup.state()
        needed = {segment.object_key for segment in self.judge.needed(backup)}
        needed |= {found.last.as_written.object_key for found in head.segments.values() if found.last is not None}
        named = {each.as_written.object_key for each in head.stored_segments()}
        assert named <= needed, f"no kept point needs {sorted(named - needed)}"
        ever = {s.object_key for stored in backup.log.read(after=0) for s in stored.commit.changes.segments}
        left = (ever & set(self.store.objects)) - needed
        assert not left, f"still there, and not needed: {sorted(left)}"


def must_stay(before: BackupState, judge: RetentionJudge, policy: RetentionPolicy, *, now_ms: int) -> set[int]:
    """The restore points that the policy promises to keep, reckoned plainly."""
    lines = list(before.history)
    complete_ms = [line.committed_at_ms for line in lines if judge.then[line.seq].complete]
    kept = {lines[-1].seq}
    if not complete_ms or (policy.floor_ms and now_ms - complete_ms[-1] > policy.floor_ms + 60_000):
        return {line.seq for line in lines}
    if policy.max_bytes is not None:
        return kept
    if policy.keep_age_ms is not None:
        from_ms = min(now_ms, complete_ms[-1])
        kept |= {line.seq for line in lines if line.committed_at_ms >= from_ms - policy.keep_age_ms}
    for rule, length_ms in _BUCKETS_MS.items():
        buckets = sorted({line.committed_at_ms // length_ms for line in lines})
        chosen = buckets[-policy.counts[rule] :] if policy.counts[rule] else []
        for bucket in chosen:
            complete = [line.seq for line in lines if line.committed_at_ms // length_ms == bucket]
            complete = [seq for seq in complete if judge.then[seq].complete]
            kept |= set(complete[-1:])
    return kept


def promised_by_topics(backup: Backup, head: BackupState, judge: RetentionJudge, *, now_ms: int) -> Iterator[int]:
    """The restore points that a mirror must keep, as far as that is plain: all that such a one needs is of topics that
    are there still and were never cut back; and it is young enough by the settings of now, or by those that the point
    was made with, or the source still has it."""
    cut = {branch.partition_id for branch in head.branches}
    now = {shape.incarnation: _keep_ms(shape) for shape in head.topics.values()}
    for line in head.history:
        then, state = judge.then[line.seq], backup.state_at(line.seq, head=head)
        kept = [
            known.incarnation in head.live_incarnations()
            and known not in cut
            and (
                segment.start >= head.positions[known].log_start
                or segment.timestamp_max_ms
                >= now_ms - max(now[known.incarnation], _keep_ms(state.topics[known.incarnation]))
            )
            for known, start in then.starts.items()
            for segment in state.segments.get(known, ())
            if start < max(segment.end, segment.last_offset + 1) and segment.start < state.positions[known].end
        ]
        if kept and all(kept):
            yield line.seq


def _keep_ms(shape: TopicShape) -> int:
    return int(dict(shape.configs).get("retention.ms", "-1"))


def problem_of(number: int) -> str:
    """What is wrong with schedule `number`, with all that happened; empty when nothing is."""
    play = RetentionPlay(number)
    try:
        play.play()
    except AssertionError as error:
        return f"schedule {number}: {error}\n  " + "\n  ".join(play.told)
    return ""
