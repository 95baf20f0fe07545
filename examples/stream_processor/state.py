"""The state of one partition: what follows from the records of its log, and nothing else."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from examples.stream_processor.records import Message
from offsite_participant.bcs import Created, Progress, on_replayed

REMEMBERED = 100
"""Checkpoints: far more than can wait for their upload while a snapshot is taken."""


@dataclass(slots=True, kw_only=True)
class Instance:
    """It waits for one message with `key`; `messages` holds what was correlated to it, which must never be two."""

    key: str
    messages: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class State:
    """`processed` is the position of the last command whose event is in here, `last` the highest position of any record
    that is; `checkpoint` and `checkpoint_position` are the partition's `Progress`; `taken`, the newest checkpoints, of
    which a later leader may have to tell that nobody copies them.

    Of deployments (version → name): on each partition. Of `instances` (name → instance): those that live here.
    Of keys that hash here: who waits (`waiting`, key → instances), what nobody took yet (`buffered`, key → messages),
    and what was ever seen (`opened`, instance → its home; `published`, message → its key), so that a repetition is
    known as one. `outstanding` (name → message) is sent again and again until its receiver has acknowledged it."""

    processed: int = -1
    last: int = -1
    checkpoint: int = 0
    checkpoint_position: int = -1
    taken: list[Created] = field(default_factory=list)
    deployments: dict[str, str] = field(default_factory=dict)
    instances: dict[str, Instance] = field(default_factory=dict)
    waiting: dict[str, list[str]] = field(default_factory=dict)
    buffered: dict[str, list[str]] = field(default_factory=dict)
    opened: dict[str, int] = field(default_factory=dict)
    published: dict[str, str] = field(default_factory=dict)
    outstanding: dict[str, Message] = field(default_factory=dict)

    @property
    def progress(self) -> Progress:
        return Progress(checkpoint=self.checkpoint, position=self.checkpoint_position)

    def take_over(self, created: Created) -> None:
        """Raises `ValueError` if it cannot follow."""
        progress = on_replayed(self.progress, created)
        self.checkpoint, self.checkpoint_position = progress.checkpoint, progress.position
        self.taken = [*self.taken, created][-REMEMBERED:]


def state_bytes(state: State) -> bytes:
    return json.dumps(asdict(state), separators=(",", ":")).encode()


def read_state(data: bytes) -> State:
    fields = json.loads(data)
    fields["taken"] = [Created(**each) for each in fields.get("taken", ())]
    fields["instances"] = {name: Instance(**each) for name, each in fields["instances"].items()}
    fields["outstanding"] = {name: Message(**each) for name, each in fields["outstanding"].items()}
    return State(**fields)
