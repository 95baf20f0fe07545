"""A world for two instances of a set: processes that stop, die and wake up anywhere, a topic that loses and repeats, a
source that somebody empties.

The processes are those of `generations/` as they are, over a ledger in memory; only what they read into and the
topic are doubles. Each runs in a thread of its own, and one at a time: a process goes on from one operation on the
store, the topic or the source to the next when the world gives it its turn. So a process can be left in front of any
operation for as long as the world likes (SIGSTOP), or die there (kill -9).
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from offsite.generations.coordination import Addresses, CoordinationMailbox
from offsite.generations.decision import Announcement, InstanceView, Send, TakeBack
from offsite.generations.instance import InstanceContext, RunningInstance
from offsite.generations.message import CoordinationMessage, Event, encode_message
from offsite.generations.target import GenerationEnds, Guard, RoundResult
from offsite.log.buffer import Buffer
from offsite.model.errors import CommitLost, OffsiteError
from offsite.repository.generation_sets.entry import Founding, GenerationEntry, GenerationEntryKind, Instance
from offsite.repository.generation_sets.generation_set import GenerationSet
from offsite.repository.generation_sets.ledger import set_ledger
from offsite.repository.local_memory import ReleaseMemory
from offsite.repository.removal import Announce
from offsite.stores.numbered_log import EntryRefusedError
from offsite.stores.store import ObjectInfo, PutResult
from tests.memory_store import MemoryStore

SET = "s"
PARTITIONS = 2
KEYS = [("t", "id", number) for number in range(PARTITIONS)]
FOUNDING = Founding(cluster_id="c", include=("t",), exclude=(), internal=False, target="backup", place="")
LENGTH_MS = 6_000


class Death(BaseException):
    """The process dies here."""


@dataclass
class World:
    """`store` holds everything that lasts. `starts`, `ends`: the topic's. `records`: the coordination topic's. `judge`
    is asked after every operation that changes something."""

    chance: random.Random

    def __post_init__(self) -> None:
        self.store = MemoryStore()
        self.ends, self.starts = [3] * PARTITIONS, [0] * PARTITIONS
        self.records: list[tuple[bytes, bytes | None]] = []
        self.processes: list[Process] = []
        self.judge: Callable[[str, str, Process | None], None] = lambda *_: None
        self.is_calm = False
        self._known = GenerationSet(name=SET)

    @property
    def state(self) -> GenerationSet:
        """As it is now, whoever knows it."""
        self._known = set_ledger(self.store, SET).read(self._known)  # type: ignore[arg-type]
        return self._known

    def log(self, generation: int) -> list[dict[str, object]]:
        """The commits of a generation, in order."""
        return [
            json.loads(self.store.objects[key])
            for key in sorted(self.store.objects)
            if key.startswith(f"g/{generation}/commits/")
        ]

    def held(self, generation: int) -> list[int] | None:
        """How far a generation reaches, None where it is not there as a whole."""
        prefix = f"g/{generation}/commits/"
        keys = sorted(key for key in self.store.objects if key.startswith(prefix))
        if f"g/{generation}/backup" not in self.store.objects or keys != [
            f"{prefix}{n:06d}" for n in range(1, len(keys) + 1)
        ]:
            return None
        return list(json.loads(self.store.objects[keys[-1]])["ends"]) if keys else None

    def begins(self, generation: int) -> list[int]:
        """Where what a generation holds begins."""
        return list(json.loads(self.store.objects[f"g/{generation}/commits/{1:06d}"])["begins"])

    def release(self) -> None:
        """A person lets go what nobody can read again."""
        ledger, state = set_ledger(self.store, SET), self.state  # type: ignore[arg-type]
        for each in state.generations:
            entry = GenerationEntry(
                seq=state.seq + 1,
                previous=state.head,
                kind=GenerationEntryKind.RELEASED,
                instance=Instance.A,
                word="a person",
                at_ms=self.store.now_ms(),
                generation=each.number,
            )
            with suppress(EntryRefusedError):
                state = state if each.is_released else ledger.append(entry, to=state) or state
        memory = ReleaseMemory(store=self.store, prefix=ledger.prefix)  # type: ignore[arg-type]
        for word in (each.released for each in state.generations if each.released is not None):
            memory.note_given(word)

    def start(self, instance: Instance, *, is_first: bool | None = None) -> Process:
        process = Process(self, instance, is_first=instance is Instance.A if is_first is None else is_first)
        self.processes.append(process)
        return process


class Process:
    """One process of one instance."""

    def __init__(self, world: World, instance: Instance, *, is_first: bool) -> None:
        self.world, self.instance = world, instance
        self.word = f"{world.chance.getrandbits(64):016x}"
        self.is_over = False
        self.ended_by: BaseException | None = None
        self.must_die = False
        self.sleeps = 0
        self._turn, self._pause = threading.Semaphore(0), threading.Semaphore(0)
        store = PausingStore(self)
        generations = InstanceContext(
            ledger=set_ledger(store, SET),  # type: ignore[arg-type]
            target=PausingTarget(self),
            coordination=PausingTopic(self),
            founding=FOUNDING,
            me=InstanceView(instance=instance, word=self.word, is_first=is_first),
            by=self.word,
            length_ms=LENGTH_MS,
        )
        self._running = RunningInstance(generations, on_effect=lambda _: None)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def go_on(self) -> None:
        """Up to its next operation, or its end."""
        self._turn.release()
        self._pause.acquire()

    def kill(self) -> None:
        self.must_die = True
        while not self.is_over:
            self.go_on()

    def pause(self) -> None:
        """The world goes on with others; called in front of each operation."""
        if self.must_die:
            raise Death
        self._pause.release()
        self._turn.acquire()
        if self.must_die:
            raise Death

    def _run(self) -> None:
        self._turn.acquire()
        try:
            while True:
                try:
                    self._running.step()
                except OffsiteError as error:
                    if not isinstance(error, CommitLost):
                        raise
                    self._running._state = None
                self.pause()
        except BaseException as error:  # noqa: BLE001  # told to the test
            self.ended_by = error
        finally:
            self.is_over = True
            self._pause.release()


class PausingStore:
    """The world's store, with a pause in front of each operation."""

    url = "memory:"

    def __init__(self, process: Process) -> None:
        self._process, self._inner = process, process.world.store

    def get(self, key: str) -> bytes | None:
        self._process.pause()
        return self._inner.get(key)

    def head(self, key: str) -> ObjectInfo | None:
        self._process.pause()
        return self._inner.head(key)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        self._process.pause()
        return iter(list(self._inner.list(prefix, start_after=start_after)))

    def put_if_absent(self, key: str, data: Buffer | Sequence[Buffer]) -> PutResult:
        self._process.pause()
        result = self._inner.put_if_absent(key, data)
        if result is PutResult.CREATED:
            self._process.world.judge("put", key, self._process)
        return result

    def put_overwrite(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        self._process.pause()
        self._inner.put_overwrite(key, data)

    def delete(self, key: str) -> None:
        self._process.pause()
        self._inner.delete(key)
        self._process.world.judge("delete", key, self._process)

    def now_ms(self) -> int:
        self._process.pause()
        return self._inner.now_ms()


class PausingTarget:
    """Generations as a descriptor and a log of commits each, which is all that fencing and removal are about."""

    def __init__(self, process: Process) -> None:
        self._process, self._store = process, PausingStore(process)

    def place_taken(self, generation: int) -> str:
        return "g" if any(self._store.list(f"g/{generation}/")) else ""

    def copy(self, generation: int, guard: Guard) -> RoundResult:
        commits = self._commits(generation)
        self._process.pause()
        told, starts = list(self._process.world.ends), list(self._process.world.starts)
        begun = commits[-1]["ends"] if commits else starts
        guard()
        self._store.put_if_absent(f"g/{generation}/backup", b"{}")
        chance = self._process.world.chance
        reached = [min(end, at + chance.choice([1, 2, 5, 50])) for at, end in zip(begun, told, strict=True)]
        if reached != begun or not commits:
            commit = {"ends": reached, "by": self._process.word, "begins": starts}
            self._commit(generation, len(commits) + 1, commit)
            commits = [*commits, {}]
        held = {key: end for key, end in zip(KEYS, reached, strict=True) if end}
        return RoundResult(
            at_end=reached == told,
            ends=held,
            topics=frozenset({("t", "id")}),
            commit=len(commits),
            partitions=PARTITIONS,
        )

    def ends(self, generation: int) -> GenerationEnds:
        commits = self._commits(generation)
        ends = commits[-1]["ends"] if commits else [0] * PARTITIONS
        return {key: end for key, end in zip(KEYS, ends, strict=True) if end}

    def uncompacted(self) -> Sequence[str]:
        return ()

    def lost(self, old: int, new: int, topics: object = None) -> tuple[str, ...]:
        """Whether the topic was emptied since the old one began: nothing of before is in the new one."""
        begins = [commits[0]["begins"] if (commits := self._commits(each)) else self._ends() for each in (old, new)]
        return tuple(f"{key} from {a} to {b}" for key, a, b in zip(KEYS, *begins, strict=True) if a < b)

    def _ends(self) -> list[int]:
        self._process.pause()
        return list(self._process.world.ends)

    def seal(self, generation: int) -> None:
        while True:
            commits = self._commits(generation)
            try:
                ends = commits[-1]["ends"] if commits else [0] * PARTITIONS
                self._commit(generation, len(commits) + 1, {"ends": ends, "by": self._process.word, "seal": True})
            except CommitLost:
                continue
            return

    def is_read(self, generation: int) -> bool:
        return False

    def disputed_pin(self, generation: int) -> str:
        return ""

    def is_pinned(self, generation: int) -> bool:
        return False

    def is_there(self, generation: int) -> bool:
        return self._store.head(f"g/{generation}/backup") is not None

    def remove(self, generation: int, announce: Announce) -> bool:
        self._announced(generation, announce)
        self._store.delete(f"g/{generation}/backup")
        for info in reversed(list(self._store.list(f"g/{generation}/"))):
            self._store.delete(info.key)
        return True

    def sweep(self, generation: int, announce: Announce, *, removed_ms: int) -> None:
        for info in self._announced(generation, announce):
            self._store.delete(info.key)

    def _announced(self, generation: int, announce: Announce) -> list[ObjectInfo]:
        if found := list(self._store.list(f"g/{generation}/")):
            announce(sum(info.size_bytes for info in found))
        return found

    def _commits(self, generation: int) -> list[dict[str, list[int]]]:
        found = []
        while (data := self._store.get(f"g/{generation}/commits/{len(found) + 1:06d}")) is not None:
            found.append(json.loads(data))
        return found

    def _commit(self, generation: int, number: int, commit: dict[str, object]) -> None:
        data = json.dumps({**commit, "n": number}).encode()
        if self._store.put_if_absent(f"g/{generation}/commits/{number:06d}", data) is PutResult.OTHER:
            raise CommitLost("another writer was first")


class PausingTopic:
    """The world's topic. While it is not calm, messages are lost, come twice, late, out of order, or from strangers."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._addresses = Addresses(name=SET, fallback="t")

    def announcements(self, state: GenerationSet) -> frozenset[Announcement]:
        return self._mailbox().announcements(state)

    def send(self, effect: Send, *, ends: GenerationEnds) -> None:
        for message in self._addresses.messages(effect, ends):
            self._process.pause()
            world = self._process.world
            lot = 1.0 if world.is_calm else world.chance.random()
            if lot > 0.15:  # else it is lost, though it was acknowledged
                world.records += [(message.key, encode_message(message))] * (2 if lot < 0.3 else 1)

    def take_back(self, effect: TakeBack) -> None:
        for key in self._mailbox().keys_to(effect.to):
            self._process.pause()
            self._process.world.records.append((key, None))

    def _mailbox(self) -> CoordinationMailbox:
        self._process.pause()
        world, mailbox = self._process.world, CoordinationMailbox(self._addresses)
        seen = len(world.records) if world.is_calm else world.chance.randint(0, len(world.records))
        for key, value in world.records[: max(seen, len(world.records) - 6)]:
            mailbox.take(key, value)
        return mailbox


def forged(world: World) -> CoordinationMessage:
    """A message such as a stranger writes who has read the topic and the ledger."""
    state = world.state
    active = state.active_generation
    times = [state.asked_ms, 0, 1, *([active.complete_ms] if active else [])]
    instance, number = world.chance.choice(list(Instance)), world.chance.randrange(PARTITIONS)
    return CoordinationMessage(
        event=world.chance.choice(list(Event)),
        connector=Addresses(name=SET).connector(instance),
        topic="t",
        partition=number,
        offset=world.chance.randrange(100),
        at_ms=world.chance.choice(times),
    )
