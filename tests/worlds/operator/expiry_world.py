"""A world for what deletes whole backups: the real operator, ledger and expiry job, over a source that forgets.

Its dimensions:
- two stores, each with a clock of its own, minutes apart; a third place, which is a copy of the first as it was once
- copies of a repository put back in its place; a backup that was removed, brought back by a person
- a source that lets go of records, whose topics are deleted, made anew and emptied, with topic ids or without
- successors that lack things: partitions whose broker is down, topics misspelt, passes broken off, objects damaged
- readers at work: restores that run, that were killed, that begin in the middle of a job
- people who move the backup to and fro, stop it, pin points and take pins off, release backups, set and unset a minimum
- jobs that are killed anywhere, and operators at work between any two of their steps

What was deleted is judged by what the world itself noted of each pass, by no code of the product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from random import Random
from typing import Self, TypeAlias

from offsite.log.batch import LastBatch, scan
from offsite.log.range import LogRange, PartitionId
from offsite.model.clock import SystemClock
from offsite.model.errors import BackupGoing, OffsiteError
from offsite.model.selection import parse_selection
from offsite.operator.decide.desired import Account, DesiredAgents, DesiredBackup, RepositoryPlace, resolve_backup
from offsite.operator.decide.observed import ObservedAgents
from offsite.operator.work.expire import ExpiryRequest, expire
from offsite.operator.work.release import plan_release, release
from offsite.operator.world.backups import BackupExecutor, reconcile, seal
from offsite.operator.world.claims import Slots
from offsite.operator.world.observe import BackupFacts, Observer, RepositoryFacts, read_history
from offsite.repository.backup import Backup
from offsite.repository.commit import (
    CommitChanges,
    LeftBehindPartition,
    Position,
    RecordedHole,
    StoredCommit,
    TopicShape,
)
from offsite.repository.commit_log import CommitLog
from offsite.repository.declared.history import BackupPhase, LowLevelBackup
from offsite.repository.layout import BackupLayout
from offsite.repository.lease import ProcessIdentity
from offsite.repository.repository import Repository
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import RestoreOutcome, RestoreRecord, put_outcome
from offsite.repository.segments.segment import Segment
from offsite.repository.segments.writer import SegmentWriter
from offsite.repository.state import BackupState
from offsite.restore import lease
from offsite.stores.store import Store
from offsite.upkeep.retention.pins import pin_point, unpin_point
from tests.backups import SELECTION
from tests.batches import RECORDS_PER_BATCH, chunk_of, make_log
from tests.faulty_store import Crash, FaultyStore
from tests.memory_store import MemoryStore
from tests.virtual_time import SeededWorld, VirtualClock
from tests.worlds.operator.world import identity, new_backup

UID = "aaaaaaaa-1"
MINIMUM_MS = 50_000
TOPICS = ("orders", "users")
ALL = ["orders", "users"]
LOOKS_OF_AN_OPERATOR = 20
"""From its start to its end, on average: it remembers what it saw of backups."""

Block: TypeAlias = int
"""A batch of the source, by its number in the log."""
Log: TypeAlias = tuple[str, str, int]
"""Topic, the making of the topic (which a source without ids does not tell), partition."""


class InlinePool:
    """In the place of threads: a look costs more to spread than to take in memory."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def map(self, act: Callable[..., object], *items: Iterable[object]) -> Iterator[object]:
        return map(act, *items)


def remembered() -> Callable[[CommitLog, str, bytes], StoredCommit]:
    """In the place of `CommitLog._decoded`: the same bytes are the same commit, and are read hundreds of times."""
    decoded, known = CommitLog._decoded, dict[tuple[str, bytes], StoredCommit]()

    def decode(log: CommitLog, key: str, data: bytes) -> StoredCommit:
        if (key, data) not in known:
            known[key, data] = decoded(log, key, data)
        return known[key, data]

    return decode


POOLS = ("offsite.repository.commit_log", "offsite.repository.backup", "offsite.operator.work.comparison")
"""Modules whose `ThreadPoolExecutor` is an `InlinePool` in many courses."""


class Lost(AssertionError):  # not an error of the test: what it looks for
    """Something was deleted that somebody needs."""


class ClockStore(MemoryStore):
    """A store whose clock differs from the world's by the same all the time."""

    def __init__(self, clock: VirtualClock, url: str, skew_ms: int) -> None:
        super().__init__(clock)
        self.url, self._skew_ms = url, skew_ms

    def put_overwrite(self, key: str, data: object) -> None:
        super().put_overwrite(key, data)  # type: ignore[arg-type]
        self._times[key] = self.now_ms()

    def now_ms(self) -> int:
        return super().now_ms() + self._skew_ms

    def snapshot(self) -> tuple[dict[str, bytes], dict[str, int]]:
        return dict(self.objects), dict(self._times)

    def put_back(self, taken: tuple[dict[str, bytes], dict[str, int]]) -> None:
        self.objects, self._times = dict(taken[0]), dict(taken[1])


class BusyStore(FaultyStore):
    """Others act in front of effect `at`."""

    def __init__(self, inner: Store, *, at: int, act: Callable[[], None], fails_at: int) -> None:
        super().__init__(inner, fails_at=fails_at)
        self._at, self._act = at, act

    def effect(self, act: Callable[[], object]) -> object:  # type: ignore[override]
        if self.effects == self._at:
            self._act()
        return super().effect(act)  # type: ignore[arg-type]


@dataclass(slots=True)
class Topic:
    """`start`, `end`: batches that its partitions have."""

    making: str
    start: list[int] = field(default_factory=lambda: [0, 0])
    end: list[int] = field(default_factory=lambda: [2, 2])


@dataclass(slots=True)
class Pass:
    """`begun`: behind which beginning it was made."""

    begun: int
    at_ms: int
    complete: bool


@dataclass(slots=True)
class Truth:
    """What the world knows of a backup that lies in a place. `over`: logs whose end it has seen; `is_decided`: it was
    decided, rightly, that it goes, and the job was killed."""

    begun: int
    held: dict[Log, set[Block]] = field(default_factory=dict)
    over: set[tuple[str, str]] = field(default_factory=set)
    passes: list[Pass] = field(default_factory=list)
    is_damaged: bool = False
    is_brought_back: bool = False
    is_decided: bool = False
    released: bool = False
    pins: set[int] = field(default_factory=set)
    readers: set[str] = field(default_factory=set)

    def age_ms(self, *, since: int) -> int:
        """Between the oldest and the newest complete pass behind a beginning; -1: there is none."""
        times = [each.at_ms for each in self.passes if each.complete and each.begun >= since]
        return max(times) - min(times) if times else -1


Truths: TypeAlias = dict[str, Truth]


class ExpiryWorld(SeededWorld):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        skews = [0, self.rng.choice([-600_000, -180_000, 180_000, 600_000])]
        self.rng.shuffle(skews)
        self.accounts = {"main": "memory:///one", "other": "memory:///two"}
        self.stores = {
            url: ClockStore(self.clock, url, skew) for url, skew in zip(self.accounts.values(), skews, strict=True)
        }
        self.home = ClockStore(self.clock, "memory:///home", 0)
        self.truths: dict[str, Truths] = {url: {} for url in self.stores}
        self.copies: list[tuple[str, tuple[dict[str, bytes], dict[str, int]], Truths]] = []
        self.removed: list[tuple[str, str, dict[str, bytes], Truth]] = []
        self.has_ids = self.rng.random() < 0.7
        self.topics = {name: Topic(making=f"{name}-1") for name in TOPICS}
        self.down: set[tuple[str, int]] = set()
        self.begins = self.makings = self.restores = 0
        self.configured: DesiredAgents | None = None
        self.minimum_ms = self.usual_minimum_ms = self.rng.choice([0, *[MINIMUM_MS] * 5])
        self.told: list[str] = []
        self.numbers: dict[str, int] = {}
        self.generation = 0
        self.has_time = self.rng.random() < 0.6
        self.spec: dict[str, object] = {}
        self.places: list[RepositoryPlace] = []
        self.facts, self.operator_ends = RepositoryFacts(), Random(f"operators {seed}")
        for store in self.stores.values():
            Repository.init(store)
        self.declare()

    # -- people --------------------------------------------------------------------------------------------------------

    def declare(self, **changes: object) -> None:
        self.generation += 1
        form = {} if self.has_time else {"timestampFormat": "", "path": self.rng.choice(["a", "a", "a", "b"])}
        before = self.spec.get("destination")
        was = before["account"] if isinstance(before, dict) else ""
        others = [name for name in sorted(self.accounts) if name != was]
        account = self.rng.choice(sorted(self.accounts) if self.rng.random() < 0.4 else others)
        self.spec = {
            "state": changes.get("state", "running"),
            "tag": f"t{self.generation}" if self.has_time and "state" not in changes else "one",
            "topics": changes.get("topics", ALL),
            "destination": {"account": account, **form},
            "agents": {"replicas": 1},
        }
        self.backup = new_backup(UID, self.generation, **self.spec)

    def person(self) -> None:
        is_odd = self.spec["topics"] != ALL or self.spec["state"] != "running"
        if is_odd or self.minimum_ms != self.usual_minimum_ms:
            act, self.minimum_ms = self.move, self.usual_minimum_ms  # it is noticed soon
        else:
            seldom = [self.stop, self.misspell, self.change_minimum, self.pin, self.unpin, self.unpin, self.release]
            act = self.rng.choice([*[self.move] * 5, *[self.bring_back] * 2, *seldom])
        with suppress(OffsiteError):
            act()

    def move(self) -> None:
        self.declare()

    def stop(self) -> None:
        self.declare(state="stopped")

    def misspell(self) -> None:
        if self.has_time:  # one name is of one choice of topics
            self.declare(topics=["orders", "user"])

    def change_minimum(self) -> None:
        self.minimum_ms = MINIMUM_MS - self.minimum_ms

    def somewhere(self) -> tuple[str, str, Truth]:
        found = [(url, name, truth) for url, truths in self.truths.items() for name, truth in truths.items()]
        return self.rng.choice(found) if found else ("", "", Truth(begun=0))

    def pin(self) -> None:
        self.pin_at(*self.somewhere())

    def pin_at(self, url: str, name: str, truth: Truth) -> None:
        history = self.opened(url, name).state().history if name and truth.passes else ()
        if history:
            pin_point(self.opened(url, name), history[-1].seq, reason="a person")
            truth.pins.add(history[-1].seq)
            truth.released = False

    def unpin(self) -> None:
        url, name, truth = self.somewhere()
        if truth.pins:
            number = min(truth.pins)
            unpin_point(self.opened(url, name), number)
            truth.pins.discard(number)
            truth.released = False

    def release(self) -> None:
        url, name, truth = self.somewhere()
        if name:
            repository = Repository.open(self.stores[url])
            release(repository, plan_release(repository, name), reason="a person")
            truth.released = True
            if self.rng.random() < 0.5:  # somebody thinks again
                self.pin_at(url, name, truth)

    def bring_back(self) -> None:
        """All of a backup that was removed, from a copy; its descriptor first."""
        if not self.removed:
            return
        url, name, objects, truth = self.rng.choice(self.removed)
        if self.opened_or_none(url, name) is None and url in self.stores:
            for key in sorted(objects, key=lambda key: not key.endswith("backup.json")):
                self.stores[url].put_overwrite(key, objects[key])
            self.truths[url][name] = replace(deepcopy(truth), is_brought_back=True, is_decided=False, released=False)

    # -- repositories --------------------------------------------------------------------------------------------------

    def upset(self) -> None:
        self.rng.choice(
            [self.copy_repository, self.copy_repository, self.put_back, self.point_at_copy, *[self.damage] * 3]
        )()

    def copy_repository(self) -> None:
        url = self.rng.choice(list(self.stores))
        self.copies.append((url, self.stores[url].snapshot(), deepcopy(self.truths[url])))

    def put_back(self) -> None:
        if self.copies:
            url, taken, truths = self.rng.choice(self.copies)
            self.stores[url].put_back(taken)
            self.truths[url] = deepcopy(truths)

    def point_at_copy(self) -> None:
        copies = [copy for copy in self.copies if copy[0] == "memory:///one"]
        if copies and "memory:///copy" not in self.stores:
            _, taken, truths = self.rng.choice(copies)
            self.stores["memory:///copy"] = ClockStore(self.clock, "memory:///copy", 0)
            self.stores["memory:///copy"].put_back(taken)
            self.truths["memory:///copy"] = deepcopy(truths)
            self.accounts["main"] = "memory:///copy"

    def damage(self) -> None:
        url, name, truth = self.somewhere()
        prefix = f"{BackupLayout(backup=name).prefix}topics/" if name else "none"
        keys = [key for key in self.stores.get(url, self.home).objects if key.startswith(prefix) and ".log" in key]
        if keys:
            key = self.rng.choice(sorted(keys))
            data = bytearray(self.stores[url].objects[key])
            data[len(data) // 2] = (data[len(data) // 2] + 1) % 256  # twice is no mend
            self.stores[url].put_overwrite(key, data)
            truth.is_damaged = True

    # -- the source ----------------------------------------------------------------------------------------------------

    def source(self) -> None:
        self.down.clear()
        name = self.rng.choice(TOPICS)
        topic, partition, event = self.topics.get(name), self.rng.randrange(2), self.rng.random()
        if topic is None or event > 0.97:  # made anew, as long as it was or not
            self.makings += 1
            end = self.rng.choice([2, 9])
            self.topics[name] = Topic(making=f"{name}-new-{self.makings}", end=[end, end])
        elif event < 0.6:
            topic.end[partition] += self.rng.choice([1, 2])
        elif event < 0.80:
            topic.start[partition] = self.rng.randint(topic.start[partition], topic.end[partition])
        elif event < 0.89:
            topic.start[:] = topic.end
        elif event < 0.93:
            del self.topics[name]
        else:
            self.down.add((name, partition))

    # -- operator and agent --------------------------------------------------------------------------------------------

    @property
    def wanted(self) -> DesiredBackup:
        accounts = tuple(Account(name=name, endpoint=url) for name, url in self.accounts.items())
        return resolve_backup(self.backup, accounts)

    def operate(self, *, fails_at: int = -1) -> None:
        stores = {url: FaultyStore(store, fails_at=fails_at) for url, store in self.stores.items()}
        if self.operator_ends.random() < 1 / LOOKS_OF_AN_OPERATOR:  # its successor knows nothing
            self.facts = RepositoryFacts()
        eyes = Observer(
            open_store=lambda place: stores[place.repository], facts=self, agents=self, identity=identity("operator")
        )
        wanted = self.wanted
        if wanted.place not in self.places:
            self.places.append(wanted.place)
        with suppress(Crash):
            hands = BackupExecutor(observer=eyes, slots=Slots(self.home, limit=1), seal=seal)
            self.told += [each.message for each in reconcile(hands, wanted, self.places).conditions]
        self.note_beginnings()

    def note_beginnings(self) -> None:
        """Each beginning has a number: what the world knows of the order."""
        for _, low in self.lows():
            if low.word not in self.numbers:
                self.begins += 1
                self.numbers[low.word] = self.begins

    def lows(self) -> Iterator[tuple[str, LowLevelBackup]]:
        for url, store in self.stores.items():
            yield from ((url, low) for low in read_history(store, UID).backups)

    def live(self) -> tuple[str, LowLevelBackup] | None:
        place = self.configured.place if self.configured is not None else None
        if place is None or place.repository not in self.stores:
            return None
        history = read_history(self.stores[place.repository], UID)
        low = history.backups[-1] if history.backups else None
        return (place.repository, low) if low is not None and low.phase is BackupPhase.RUNNING else None

    def copy(self) -> None:
        """The agent makes a pass, or a part of one."""
        if (live := self.live()) is None:
            return
        url, low = live
        name = low.beginning.backup
        with suppress(OffsiteError):
            repository = Repository.open(self.stores[url])
            backup = repository.create_backup(name, cluster_id="c", selection=SELECTION, declared_by=UID)
            self.commit_pass(url, backup, low)

    def commit_pass(self, url: str, backup: Backup, low: LowLevelBackup) -> None:
        state, is_broken_off = backup.state(), self.rng.random() < 0.15
        truth = self.truths[url].get(low.beginning.backup) or Truth(begun=0)
        made = _Made(world=self, backup=backup, state=state, truth=truth)
        asked = parse_selection(low.beginning.topics).select(self.topics)
        over = set[tuple[str, str]]()
        for topic in asked:
            for partition in range(2):
                if is_broken_off and self.rng.random() < 0.5:
                    continue
                made.copy(topic, partition)
        for incarnation, shape in state.topics.items():
            now = self.topics.get(incarnation.topic)
            is_asked = incarnation.topic in low.beginning.topics and not shape.is_deleted
            if is_asked and (now is None or self.id_of(now) != incarnation.topic_id):
                made.shapes.append(replace(shape, deleted_ms=1))
                over |= {(log[0], log[1]) for log in truth.held if log[0] == incarnation.topic and self._is_gone(log)}
        changes = CommitChanges(
            segments=tuple(made.segments),
            positions=tuple(made.positions),
            topics=tuple(made.shapes),
            holes=tuple(made.holes),
            left_behind=tuple(made.left),
            incomplete=is_broken_off,
        )
        backup.commit(changes, base=state, writer=f"w{self.rng.random()}")
        for log, blocks in made.held.items():
            truth.held.setdefault(log, set()).update(blocks)
        truth.over |= over
        truth.begun = self.numbers[low.word]
        truth.passes.append(Pass(begun=truth.begun, at_ms=self.now_ms, complete=not is_broken_off))
        self.truths[url][low.beginning.backup] = truth

    def _is_gone(self, log: Log) -> bool:
        now = self.topics.get(log[0])
        return now is None or now.making != log[1]

    def id_of(self, topic: Topic) -> str:
        return topic.making if self.has_ids else ""

    # -- restores ------------------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """One begins; most of those that were begun go on, and end."""
        url, name, truth = self.somewhere()
        reading = [
            (url, name, each) for url, found in self.truths.items() for name, each in found.items() if each.readers
        ]
        if reading and self.rng.random() < 0.75:
            url, name, truth = self.rng.choice(reading)
            restore = min(truth.readers)
            truth.readers.discard(restore)
            layout = RestoreLayout(backup=BackupLayout(backup=name), restore=restore)
            done = RestoreOutcome(records=0, size_bytes=0, verified=None, findings=(), partitions=())
            put_outcome(self.stores[url], layout, done)
        elif name and truth.passes:
            self.begin_restore(url, name, truth, self.opened_or_none(url, name))

    def begin_restore(self, url: str, name: str, truth: Truth, backup: Backup | None) -> None:
        """It may be killed any time from then on, and go on later. `backup`: as it was opened, maybe a while ago."""
        if backup is None:
            return
        self.restores += 1
        record = RestoreRecord(
            restore=f"20260101-{self.restores:06d}-aaaa",
            commit=1,
            cluster_id=f"c{self.restores}",
            request=(),
            isolation="read_committed",
            offsets="preserve",
            created_at_ms=self.now_ms,
            topics=(("orders", f"t{self.restores}"),),
            created=(),
        )
        layout = RestoreLayout(backup=backup.layout, restore=record.restore)
        with suppress(BackupGoing):
            lease._record_alone(backup, record, layout, ProcessIdentity.current())  # without its thread
            truth.readers.add(record.restore)

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def job(self) -> None:
        """An expiry job, others at work meanwhile; then what it deleted is judged."""
        there = {
            (url, name) for url, truths in self.truths.items() for name in truths if self.opened_or_none(url, name)
        }
        kept = {(url, name): self.objects_of(url, name) for url, name in there}
        repositories = [Repository.open(self.busy(url)) for url in self.urls_used()]
        asked = ExpiryRequest(
            uid=UID, repositories=repositories, policy=None, minimum_ms=self.minimum_ms, is_deletion=False
        )
        if not repositories:
            return
        with suppress(Crash, OffsiteError):
            self.told += map(str, expire(asked, clock=SystemClock()).kept)
        self.judge(kept)

    def urls_used(self) -> list[str]:
        return [url for url in self.stores if any(place.repository == url for place in self.places)]

    def busy(self, url: str) -> Store:
        """A store of the job: others act in the middle of it."""
        fails_at = self.rng.randrange(25) if self.rng.random() < 0.15 else -1
        at = self.rng.randrange(15) if self.rng.random() < 0.5 else -1
        where, name, truth = self.somewhere()
        opened = self.opened_or_none(where, name) if name else None

        def act() -> None:
            with suppress(OffsiteError):
                if self.rng.random() < 0.5:
                    self.begin_restore(where, name, truth, opened)
                elif opened is not None and (history := opened.state().history):
                    number = history[-1].seq
                    pin_point(opened, number, reason="in the middle")
                    truth.pins.add(number)
                    truth.released = False

        return BusyStore(self.stores[url], at=at, act=act, fails_at=fails_at)  # type: ignore[return-value]

    def judge(self, kept: dict[tuple[str, str], dict[str, bytes]]) -> None:
        removing = {(url, low.beginning.backup) for url, low in self.lows() if low.phase is BackupPhase.REMOVING}
        for (url, name), objects in kept.items():
            if self.opened_or_none(url, name) is not None:
                truth = self.truths[url][name]
                truth.is_decided = (url, name) in removing and (truth.is_decided or not self.why_not(truth))
                continue
            truth = self.truths[url].pop(name)
            if why := self.why_not(truth):
                raise Lost(f"{name} in {url} is gone: {why}")
            self.removed.append((url, name, objects, truth))

    def why_not(self, gone: Truth) -> str:
        """Why it was wrong to delete a backup; empty: it was not."""
        if gone.readers and not gone.released:
            return f"restore {min(gone.readers)} reads it"
        if gone.released or not any(gone.held.values()):
            return ""
        if gone.is_brought_back or gone.pins:
            return "somebody had brought it back" if gone.is_brought_back else "it was pinned"
        if gone.is_decided or not self.minimum_ms:
            return "" if gone.is_decided else "nobody declared a minimum"
        reasons = [self.why_no_successor(gone, other) for truths in self.truths.values() for other in truths.values()]
        return "" if "" in reasons else "; ".join(reasons) or "nothing else is there"

    def why_no_successor(self, gone: Truth, other: Truth) -> str:
        if other.is_damaged:
            return "damaged"
        if (age_ms := other.age_ms(since=gone.begun + 1)) < self.minimum_ms:
            return f"reaches back {age_ms} ms"
        for log, blocks in gone.held.items():
            if not blocks or log[:2] in gone.over:
                continue
            mine = other.held.get(log, set())
            if not mine:
                return f"nothing of {log}"
            begin = min(mine)
            if lost := {block for block in blocks if block >= begin} - mine:
                return f"lacks {sorted(lost)} of {log}"
            if begin > max(blocks) + 1:
                return f"a gap in {log}"
        return ""

    # -- ports and helpers ---------------------------------------------------------------------------------------------

    def opened(self, url: str, name: str) -> Backup:
        return Repository.open(self.stores[url]).backup(name)

    def opened_or_none(self, url: str, name: str) -> Backup | None:
        try:
            return self.opened(url, name)
        except OffsiteError:
            return None

    def objects_of(self, url: str, name: str) -> dict[str, bytes]:
        prefix = BackupLayout(backup=name).prefix
        return {key: data for key, data in self.stores[url].objects.items() if key.startswith(prefix)}

    def read(self, place: RepositoryPlace, store: Store, backup: str) -> BackupFacts:
        return self.facts.read(place, store, backup)

    def observe(self, uid: str) -> ObservedAgents:  # as `Agents`
        return ObservedAgents(configured=self.configured, ready=1)

    def configure(self, uid: str, agents: DesiredAgents | None) -> None:  # as `Agents`
        self.configured = agents


@dataclass(slots=True, kw_only=True)
class _Made:
    """A pass as it is made."""

    world: ExpiryWorld
    backup: Backup
    state: BackupState
    truth: Truth
    segments: list[Segment] = field(default_factory=list)
    positions: list[Position] = field(default_factory=list)
    shapes: list[TopicShape] = field(default_factory=list)
    holes: list[RecordedHole] = field(default_factory=list)
    left: list[LeftBehindPartition] = field(default_factory=list)
    held: dict[Log, set[Block]] = field(default_factory=dict)

    def copy(self, name: str, partition: int) -> None:
        topic = self.world.topics[name]
        shape = TopicShape(topic=name, topic_id=self.world.id_of(topic), partitions=2, replication_factor=1)
        if shape not in self.shapes:
            self.shapes.append(shape)
        known = PartitionId(topic=name, topic_id=shape.topic_id, partition=partition)
        is_another = not shape.topic_id and any(log[0] == name and log[1] != topic.making for log in self.truth.held)
        if is_another or (name, partition) in self.world.down:  # an agent sees by the last batch that it is another log
            self.left.append(LeftBehindPartition(partition_id=known, error="OFF-1503"))
            return
        before = self.state.positions.get(known)
        start, end = topic.start[partition], topic.end[partition]
        copied = before.end // RECORDS_PER_BATCH if before is not None else start
        if before is not None and copied < start:
            low, high = copied * RECORDS_PER_BATCH, start * RECORDS_PER_BATCH
            self.holes.append(RecordedHole(partition_id=known, start=low, end=high, reason="retention"))
        begin, last = max(copied, start), before.last_batch if before is not None else None
        if begin < end:
            segment, last = self.write(known, topic, begin, end)
            self.segments.append(segment)
            self.held[name, topic.making, partition] = set(range(begin, end))
        position = Position(
            partition_id=known,
            log_start=start * RECORDS_PER_BATCH,
            end=max(end, copied) * RECORDS_PER_BATCH,
            leader_epoch=0,
            last_batch=last,
        )
        self.positions.append(position)

    def write(self, known: PartitionId, topic: Topic, begin: int, end: int) -> tuple[Segment, LastBatch]:
        low, high = begin * RECORDS_PER_BATCH, end * RECORDS_PER_BATCH
        data = make_log(low, high, value=topic.making.encode())
        log_range = LogRange(topic=known.topic, partition=known.partition, start=low, end=high)
        with SegmentWriter(
            store=self.backup.store, layout=self.backup.layout, log_range=log_range, topic_id=known.topic_id
        ) as writer:
            writer.append(chunk_of(data))
            (segment,) = writer.close()
        return segment, LastBatch.of(scan(memoryview(data))[-1])


def play(seed: int, *, steps: int = 45) -> ExpiryWorld:
    """A course of events."""
    world = ExpiryWorld(seed)
    for _ in range(steps):
        event = world.rng.random()
        if event < 0.13:
            world.person()
        elif event < 0.17:
            world.upset()
        elif event < 0.25:
            world.source()
        elif event < 0.35:
            world.restore()
        elif event < 0.60:
            world.job()
        for _ in range(world.rng.choice([0, 1, 2, 4])):
            world.operate(fails_at=world.rng.randrange(5) if world.rng.random() < 0.05 else -1)
        world.copy()
        world.now_ms += world.rng.choice([1000, 20_000, 40_000])
    return world
