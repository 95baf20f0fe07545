"""A partition: its log, its snapshots, its leaders one after the other, and its part of the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from offsite.cut import bcs
from offsite.cut.bcs_copies import Copy, CopyState
from tests.simulation.engine import Command, State
from tests.simulation.leader import Leader
from tests.simulation.network import Network
from tests.simulation.replicated_log import ReplicatedLog
from tests.simulation.scheduler import Scheduler
from tests.simulation.store import Snapshot, Store

ELECTION_S = 0.5

Send = Callable[[int, Command, int], None]


@dataclass(kw_only=True)
class Partition:
    """`incarnation` is 0 for the processor that was backed up, and rises with each restore: nothing that it stores may
    take the place of what is there. `eager_s`: uploads begin so long before `Created` is appended, as ZEP008 has it."""

    number: int
    partitions: int
    scheduler: Scheduler
    network: Network
    store: Store
    send: Send
    crash: Callable[[str], bool]
    incarnation: int = 0
    eager_s: float = 0.0
    log: ReplicatedLog = field(init=False)
    snapshots: list[Snapshot] = field(default_factory=lambda: [Snapshot(0, State())])
    leader: Leader | None = None
    _pins: dict[int, Snapshot] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.log = ReplicatedLog(self.scheduler)
        self.log.on_durable = self._grown

    @property
    def name(self) -> str:
        return f"p{self.number}"

    @property
    def place(self) -> tuple[int, int]:
        return self.incarnation, self.number

    def elect(self) -> None:
        """A new leader, of a higher term. What the one before had pinned in its memory is pinned no more."""
        term = self.log.term + 1
        if self.leader is not None:
            self.leader.depose(self._pins)
        self._pins.clear()
        self.log.elect(term)
        self.scheduler.tell("leader", f"{self.name} term {term}")
        self.leader = Leader(self, term)

    def _grown(self) -> None:
        if self.leader is not None:
            self.leader.grown()

    def effect(self, leader: Leader, name: str) -> bool:
        """Whether `leader` gets to do its next effect: it may die right before."""
        if leader.is_alive and self.crash(f"{self.name} {name}"):
            self.scheduler.tell("crash", f"{self.name} before {name}")
            leader.is_alive = False
            self.scheduler.soon(ELECTION_S, lambda: self.elect() if self.leader is leader else None)
        return leader.is_alive

    def effect_on_store(self, leader: Leader, name: str) -> bool:
        """The same for what a leader does to the store: one that was deposed may not know it."""
        return self.effect(leader, name) if leader.is_alive else leader.goes_on

    def copies(self) -> tuple[Copy, ...]:
        return self.store.copies()

    def fail_copy(self, copy: Copy, reason: str) -> None:
        self.store.change(self._place_of(copy), expected=CopyState.IN_PROGRESS, new=CopyState.FAILED, reason=reason)

    def abandon_copy(self, copy: Copy) -> bool:
        return self.store.change(self._place_of(copy), expected=CopyState.IN_PROGRESS, new=CopyState.ABANDONED)

    def put_begun(self, created: bcs.Created, term: int) -> None:
        """A copy that is there to be ended."""
        copy = Copy(
            partition=self.number,
            checkpoint=created.checkpoint,
            term=term,
            state=CopyState.IN_PROGRESS,
            position=created.position,
            partitions=self.partitions,
        )
        self.store.create(self._place_of(copy), copy)

    def end_begun(self, created: bcs.Created, term: int, state: CopyState, reason: str) -> None:
        place = (self.incarnation, self.number, created.checkpoint, term)
        self.store.change(place, expected=CopyState.IN_PROGRESS, new=state, reason=reason)

    def _place_of(self, copy: Copy) -> tuple[int, int, int, int]:
        return next(
            (each for each, held in self.store.manifests.items() if held == copy),
            (self.incarnation, copy.partition, copy.checkpoint, copy.term),
        )

    def pin(self, checkpoint: int, *, before: int | None) -> None:
        fitting = [each for each in self.snapshots if before is None or each.end <= before]
        if fitting:
            self._pins[checkpoint] = fitting[-1]

    def pinned(self, checkpoint: int) -> Snapshot | None:
        return self._pins.get(checkpoint)

    def unpin(self, checkpoint: int) -> None:
        self._pins.pop(checkpoint, None)

    def add_snapshot(self, snapshot: Snapshot) -> None:
        """Older ones go, unless they are pinned, and so does the log before the oldest one."""
        held = [each for each in self.snapshots if each in self._pins.values()]
        self.snapshots = [*held, snapshot]
        self.log.compact(min(each.state.processed + 1 for each in self.snapshots))
