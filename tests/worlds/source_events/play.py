"""One random schedule of what happens to a source, played against backups, and judged.

A schedule is made of its number alone: what failed can be played again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self
from unittest import mock
from uuid import UUID

from offsite.backup import copy_plan, pass_commits
from offsite.backup import plan as planned
from offsite.backup.copy import BackupEnds, CopyBundle
from offsite.backup.options import BackupRequest
from offsite.backup.plan import BackupPlan, plan_backup
from offsite.backup.run import run_backup
from offsite.engine.runner import Done, Failed, OnProgress
from offsite.kafka.config import BrokerAddress, KafkaConfig
from offsite.log.range import TopicPartition
from offsite.model import ids
from offsite.model.clock import SystemClock
from offsite.model.errors import OffsiteError
from offsite.model.options import CompressionChoice
from offsite.model.selection import NO_GROUPS, parse_selection
from offsite.repository import backup as stored_backup
from offsite.repository import catalog, commit_log
from offsite.repository.repository import Repository
from offsite.upkeep import roll_up
from offsite.upkeep.collection import plan as collect_plan
from offsite.upkeep.collection import run as collect_run
from offsite.upkeep.collection.run import collection_steps
from offsite.upkeep.roll_up import roll_up_step
from offsite.upkeep.verification.history import check_history
from tests.batches import FIRST_TIME_MS
from tests.inline_runner import InlineRunner
from tests.memory_store import MemoryStore
from tests.worlds.source_events.facts import facts_in_memory
from tests.worlds.source_events.judge import Judge, Planned
from tests.worlds.source_events.parsed import parsed_once
from tests.worlds.source_events.source import SimAdmin, SimLog, SimSource

NAMES = ("a", "b", "c")
ACTIONS = 26
_KAFKA = KafkaConfig(bootstrap=(BrokerAddress(host="sim", port=1),))


class SimRunner:
    """Copies as workers do, out of the simulated source."""

    def __init__(self, source: SimSource) -> None:
        self._source = source

    def await_start(self) -> None: ...

    def run_each(
        self,
        tasks: Sequence[Any],
        function: Callable[..., Any],
        on_outcome: Callable[[int, Done[Any] | Failed], None],
        *,
        on_progress: OnProgress | None = None,
    ) -> None:
        assert isinstance(function, partial)
        for index, outcome in enumerate([self._copy(task, function) for task in tasks]):
            on_outcome(index, outcome)

    def _copy(self, bundle: CopyBundle, function: partial[Any]) -> Done[Any] | Failed:
        try:
            return Done(value=function(bundle, open_reads=lambda *_: self._source.read))
        except OffsiteError as error:
            return Failed(error=error, trace="")


@dataclass
class Play:
    """A schedule under way. `told` is what happened, for who has to understand it."""

    number: int
    source: SimSource = field(default_factory=SimSource)
    judge: Judge = field(default_factory=Judge)
    told: list[str] = field(default_factory=list)
    left_out: frozenset[int] | None = None
    """Steps that do not happen. If given, also when empty, each step has its own chance: without one step the others
    stay as they are."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.number)
        self.repository = Repository.init(MemoryStore())  # type: ignore[arg-type]
        self.collecting = random.Random(self.number)
        self.readers: list[tuple[int, frozenset[str]]] = []
        self.deleted = 0
        self.replicas: dict[TopicPartition, list[SimLog]] = {}
        self.values = 0

    def play(self) -> None:
        self.source.make("a", 1)
        with small(commits_per_catalog=(2, 3, 100, 100)[self.number % 4]):
            for _ in self._steps(6, ACTIONS):
                self._happen()
                if self.random.random() < 0.3:
                    self._back_up()
            self.source.hidden.clear()
            self.source.shut.clear()
            for _ in range(3):
                self._back_up(quiet=True)
                self._roll_up()
            for grace_ms in (10**7, 0):  # all is younger than the first
                self._collect(grace_ms=grace_ms)
            if self.judge.points:
                self._check_all()

    def _steps(self, low: int, high: int) -> Iterator[int]:
        count = self.random.randint(low, high)
        for step in range(count):
            if self.left_out is None or step not in self.left_out:
                self._begin(step)
                yield step
        self._begin(count)

    def _begin(self, step: int) -> None:
        if self.left_out is not None:
            for name, chance in self._chances().items():
                chance.seed(f"{name} {self.number} {step}")

    def _chances(self) -> dict[str, random.Random]:
        return {"source": self.random, "collecting": self.collecting}

    def _check_all(self) -> None:
        backup = self.repository.backup("sim")
        self.judge.compare_all(backup)
        history = check_history(backup)
        assert (history.commits, history.catalogs, history.passed_over) == ((), (), ())
        missing = {each.object_key for each in backup.state().stored_segments()} - set(backup.store.objects)  # type: ignore[attr-defined]
        assert not missing

    def _back_up(self, *, quiet: bool = False) -> None:
        """A run; between its plan and its copy things may happen, and workers may fail."""
        planned, plan = Planned.of(self.source), None
        try:
            plan = self._plan()
            self._tell("plan")
            if not quiet and self.random.random() < 0.3:
                for _ in range(self.random.randint(1, 2)):
                    self._happen()
            if not quiet and self.random.random() < 0.2:
                self.source.failing = {key for key in planned.partitions if self.random.random() < 0.5}
                self.source.answers_nothing = self.left_out is not None and self.random.random() < 0.5
            result = run_backup(
                plan,
                repository=self.repository,
                kafka=_KAFKA,
                runner=SimRunner(self.source),  # type: ignore[arg-type]
            )
        except OffsiteError as error:
            self._tell(f"run: {error.id} {error.message}")
            if not self.judge.may_fail_whole(planned, self.source):
                raise AssertionError(f"the run failed: {error.message}") from error
        else:
            self._tell(f"run: commit {result.commit}, cut {result.cut_back}, failed {result.failed}")
            self.judge.after(planned, self.source, result, self.repository.backup("sim").state())
            if self.random.random() < 0.5:
                self._roll_up()
            self._collect()
        finally:
            self.source.failing = set()

    def _roll_up(self) -> None:
        if not self.judge.points:
            return
        backup = self.repository.backup("sim")
        state = backup.state()
        ends = BackupEnds(
            kafka=_KAFKA, store=self.repository.store, layout=backup.layout, compression=CompressionChoice.NONE
        )
        chosen = sorted(state.segments)
        done = roll_up_step(backup, state, chosen, runner=InlineRunner(), ends=ends)
        if done is not None:
            self._tell(f"roll up {done.segments} into {done.into}")

    def _collect(self, *, grace_ms: int | None = None) -> None:
        """A collection, broken off now and then. Whoever planned to read within the grace time finds all objects."""
        if not self.judge.points:
            return
        backup, store = self.repository.backup("sim"), self.repository.store
        needed = frozenset(each.object_key for each in backup.state().stored_segments())
        self.readers.append((store.now_ms(), needed))
        is_last = grace_ms is not None
        if not is_last and self.collecting.random() < 0.5:
            return
        grace_ms = self.collecting.choice((0, 20_000, 60_000)) if grace_ms is None else grace_ms
        breaking = _Breaking(store, after=1000 if is_last else self.collecting.choice((0, 1, 3, 1000)))
        before = set(store.objects)  # type: ignore[attr-defined]
        collected = replace(backup, store=breaking)
        with suppress(BrokenOffError):
            for _ in collection_steps(collected, runner=InlineRunner(), clock=SystemClock(), grace_ms=grace_ms):
                pass
        gone = before - set(store.objects)  # type: ignore[attr-defined]
        self.deleted += len(gone)
        self._tell(f"collect after {grace_ms}: {len(gone)} gone")
        for planned_ms, keys in self.readers:
            if planned_ms > store.now_ms() - grace_ms:
                assert not keys & gone, "a reader within the grace time lost what it had planned to read"
        assert not needed & gone, "the newest state lost an object"

    def _plan(self) -> BackupPlan:
        request = BackupRequest(
            backup="sim",
            selection=parse_selection(["*"]),
            groups=NO_GROUPS,
            compression=CompressionChoice.NONE,
        )
        packed_from = self.random.choice((2, 100))
        return plan_backup(self.repository, SimAdmin(self.source), request, slots=2, packed_from=packed_from)  # type: ignore[arg-type]

    def _happen(self) -> None:
        """One thing, drawn by weight."""
        things: tuple[tuple[int, Callable[[], object]], ...] = (
            (10, self._write),
            (6, self._cut),
            (2, self._elect),
            (3, self._fall_back),
            (3, self._trim),
            (2, self._make),
            (1, self._delete),
            (1, self._make_anew),
            (1, self._add_partition),
            (1, self._hide),
            (1, self._shut),
        )
        self.random.choices([thing for _, thing in things], [weight for weight, _ in things])[0]()

    def _log(self) -> tuple[TopicPartition, SimLog] | None:
        if not self.source.topics:
            return None
        name = self.random.choice(sorted(self.source.topics))
        number = self.random.randrange(len(self.source.topics[name].logs))
        return TopicPartition(topic=name, partition=number), self.source.topics[name].logs[number]

    def _write(self) -> None:
        if (found := self._log()) is not None:
            for _ in range(self.random.randint(1, 3)):
                count = self.random.randint(1, 3)
                gap = self.random.choice((0, 0, 0, 0, 2))
                found[1].write(list(range(self.values, self.values + count)), gap=gap, timestamp_ms=self._now_ms())
                self.values += count
            self._tell(f"write {found[0]} to {found[1].log.end}")
            if self.random.random() < 0.3:
                self.replicas.setdefault(found[0], []).append(deepcopy(found[1]))

    def _now_ms(self) -> int:
        """What producers say that it is."""
        return FIRST_TIME_MS

    def _cut(self) -> None:
        if (found := self._log()) is not None:
            at = self.random.choice(found[1].borders())
            found[1].elect(at)
            self._tell(f"cut {found[0]} to {at}, epochs {found[1].log.epochs}")

    def _elect(self) -> None:
        if (found := self._log()) is not None:
            found[1].elect(None)
            self._tell(f"elect for {found[0]}, epochs {found[1].log.epochs}")

    def _fall_back(self) -> None:
        """A replica is elected that had fallen behind, maybe long ago, with what it had then."""
        if (found := self._log()) is not None and (replicas := self.replicas.get(found[0])):
            found[1].elect_replica(self.random.choice(replicas))
            self._tell(f"fall {found[0]} back to {found[1].log.end}, epochs {found[1].log.epochs}")

    def _trim(self) -> None:
        if (found := self._log()) is not None:
            log = found[1].log
            log.delete_before(self.random.randint(log.start, log.end))
            self._tell(f"trim {found[0]} before {log.start}")

    def _make(self) -> None:
        if free := [name for name in NAMES if name not in self.source.topics]:
            name = self.random.choice(free)
            self.source.make(name, self.random.randint(1, 2))
            self._tell(f"make {name}")

    def _delete(self) -> None:
        if self.source.topics:
            name = self.random.choice(sorted(self.source.topics))
            del self.source.topics[name]
            self._forget_replicas(name)
            self._tell(f"delete {name}")

    def _make_anew(self) -> None:
        if self.source.topics:
            name = self.random.choice(sorted(self.source.topics))
            self.source.make(name, len(self.source.topics[name].logs))
            self._forget_replicas(name)
            self._tell(f"make {name} anew")

    def _forget_replicas(self, name: str) -> None:
        self.replicas = {key: found for key, found in self.replicas.items() if key.topic != name}

    def _add_partition(self) -> None:
        if (found := self._log()) is not None:
            self.source.topics[found[0].topic].logs.append(SimLog())
            self._tell(f"add a partition to {found[0].topic}")

    def _hide(self) -> None:
        self._toggle(self.source.hidden, "hide")

    def _shut(self) -> None:
        self._toggle(self.source.shut, "shut")

    def _toggle(self, chosen: set[str], what: str) -> None:
        name = self.random.choice(NAMES)
        chosen ^= {name}
        self._tell(f"{what} {name}: {name in chosen}")

    def _tell(self, what: str) -> None:
        self.told.append(what)


class BrokenOffError(Exception):
    """Stands for `kill -9`."""


class _Breaking:
    """A store for a process that is killed after some deletions."""

    def __init__(self, store: Any, *, after: int) -> None:
        self._store, self._left = store, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def delete(self, key: str) -> None:
        if not self._left:
            raise BrokenOffError
        self._left -= 1
        self._store.delete(key)


class _InlinePool:
    """Threads that hide the latency of a store take longer than all else where there is none."""

    def __init__(self, **_: object) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def map(self, function: Callable[..., Any], *values: Iterable[Any]) -> Iterator[Any]:
        return map(function, *values)

    def submit(self, function: Callable[..., Any], *values: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(function(*values))
        return done

    def shutdown(self, **_: object) -> None: ...


class _NoMemory:
    """Of heads that were seen, in files: here nobody takes a store back."""

    def __init__(self, **_: object) -> None: ...

    def check(self, *_: object) -> None: ...

    def check_absent(self) -> None: ...

    def remember(self, *_: object) -> None: ...


class _SameIds:
    """In place of the modules that ids are drawn with."""

    def __init__(self) -> None:
        self._chance = random.Random(0)

    def token_hex(self, count: int) -> str:
        return self._chance.randbytes(count).hex()

    def uuid4(self) -> UUID:
        return UUID(int=self._chance.getrandbits(128), version=4)


@contextmanager
def same_ids() -> Iterator[None]:
    """Ids are the same in each process: they stand in messages, and things are sorted by them."""
    drawn = _SameIds()
    with mock.patch.object(ids, "secrets", drawn), mock.patch.object(ids, "uuid", drawn):
        yield


@contextmanager
def small(*, commits_per_catalog: int) -> Iterator[None]:
    """Tasks of few offsets, roll-ups of few segments, and no memory in files."""
    with (
        parsed_once(),
        facts_in_memory(),
        mock.patch.object(roll_up, "FAN_IN", 2),
        mock.patch.object(copy_plan, "TASK_OFFSETS_MAX", 4),
        mock.patch.object(catalog, "COMMITS_PER_CATALOG", commits_per_catalog),
        mock.patch.object(planned, "RememberedHead", _NoMemory),
        mock.patch.object(pass_commits, "RememberedHead", _NoMemory),
        mock.patch.object(commit_log, "ThreadPoolExecutor", _InlinePool),
        mock.patch.object(stored_backup, "ThreadPoolExecutor", _InlinePool),
        mock.patch.object(collect_plan, "ThreadPoolExecutor", _InlinePool),
        mock.patch.object(collect_run, "ThreadPoolExecutor", _InlinePool),
    ):
        yield


def problem_of(number: int) -> str:
    """What is wrong with schedule `number`, with all that happened; empty when nothing is."""
    play = Play(number)
    try:
        play.play()
    except AssertionError as error:
        return f"schedule {number}: {error}\n  " + "\n  ".join(play.told)
    return ""
