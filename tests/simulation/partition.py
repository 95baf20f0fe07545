"""A partition: its log, its snapshots, its leaders one after the other, and its part of the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from offsite_participant import bcs_snapshots
from offsite_participant.bcs_copies import Copy
from tests.simulation.engine import Command, State
from tests.simulation.leader import Leader
from tests.simulation.network import Network
from tests.simulation.replicated_log import ReplicatedLog
from tests.simulation.store import Snapshot, Store
from tests.virtual_time import Scheduler

ELECTION_S = 0.5
_TAKEN_FOR_DEAD = 0.5

Send = Callable[[int, Command, int], None]


@dataclass(kw_only=True)
class Partition:
    """`incarnation` is 0 for the processor that was backed up, and rises with each restore: nothing that it stores may
    take the place of what is there; `restored` is the checkpoint that it comes from, 0 for none. `eager_s`: uploads
    begin so long before `Created` is appended, as ZEP008 has it. `unaware_s`: for at most so long, a leader does not
    know that there is another one, and goes on with what it does. `stalling`: how often it stands still with a request
    to the store under way. `steps_ahead`: of what leaders do with the store. `beside_s`: a snapshot takes at most so
    long, and nobody can tell then where it ends; 0: it is taken at once."""

    number: int
    partitions: int
    scheduler: Scheduler
    network: Network
    store: Store
    send: Send
    crash: Callable[[str], bool]
    incarnation: int = 0
    restored: int = 0
    eager_s: float = 0.0
    unaware_s: float = 0.0
    stalling: float = 0.0
    beside_s: float = 0.0
    steps_ahead: int = 0
    log: ReplicatedLog = field(init=False)
    snapshots: list[Snapshot] = field(default_factory=lambda: [Snapshot.exact(0, State())])
    leader: Leader | None = None
    _pins: dict[tuple[int, int], Snapshot] = field(default_factory=dict)

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
        """A new leader, of a higher term."""
        term = self.log.term + 1
        if self.leader is not None:
            self._depose(self.leader)
        self.log.elect(term)
        self.scheduler.tell("leader", f"{self.name} term {term}")
        self.leader = Leader(self, term)

    def _depose(self, leader: Leader) -> None:
        leader.depose()
        if leader.is_alive and self.unaware_s:
            self.scheduler.soon(self.unaware_s, lambda: self._end(leader))
        else:
            self._end(leader)

    def _end(self, leader: Leader) -> None:
        """It has learnt that it is none, or has died. What it had pinned in its memory is pinned no more."""
        leader.is_alive = False
        self._pins = {each: held for each, held in self._pins.items() if each[0] != leader.term}

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

    def stalls(self, leader: Leader) -> bool:
        """Whether `leader` stands still now; often for so long that the others take it for dead, and elect another."""
        if not self.scheduler.happens(self.stalling):
            return False
        self.scheduler.tell("stall", f"{self.name} term {leader.term}")
        if self.scheduler.happens(_TAKEN_FOR_DEAD):
            self.scheduler.soon(ELECTION_S, lambda: self.elect() if self.leader is leader else None)
        return True

    def copies(self) -> tuple[Copy, ...]:
        return self.store.copies()

    def place_of(self, copy: Copy) -> tuple[int, int, int, int]:
        return self.incarnation, copy.partition, copy.checkpoint, copy.term

    def pin(self, checkpoint: int, term: int, *, before: int | None) -> None:
        fitting = [each for each in self.snapshots if before is None or bcs_snapshots.is_base(each.span, before=before)]
        if fitting:
            self._pins[term, checkpoint] = fitting[-1]

    def pinned(self, checkpoint: int, term: int) -> Snapshot | None:
        return self._pins.get((term, checkpoint))

    def unpin(self, checkpoint: int, term: int) -> None:
        self._pins.pop((term, checkpoint), None)

    def add_snapshot(self, snapshot: Snapshot) -> None:
        """Older ones go, unless they are pinned, and so does the log before the oldest one."""
        held = [each for each in self.snapshots if each in self._pins.values()]
        self.snapshots = [*held, snapshot]
        self.log.compact(min(each.state.processed + 1 for each in self.snapshots))
