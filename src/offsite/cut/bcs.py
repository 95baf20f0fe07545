"""Communication-induced checkpoints (BCS) for one partition of a log processor, to be embedded in its engine.

Briatico, Ciuffoletti and Simoncini (1984), as Zeebe's ZEP008 uses it: every message between partitions carries the
number of its sender's newest checkpoint; a receiver that has a lower one takes that checkpoint first. Then all local
checkpoints with the same number are a consistent cut. It needs no order, and bears loss, delay and repetition, because
of one invariant: **what a partition handles before its `Create(n)` was sent by a partition before its own
`Create(n)`.**

The engine has a log of committed records and a state that follows from it. Its part, in this order:

| when | it does |
|---|---|
| it sends a message to another partition | puts `Progress.checkpoint` on it (later is safe, earlier is not) |
| a message comes in | appends `on_message`'s records and then the message; or drops both: the sender repeats it |
| it processes a `Create` | carries out the `Step` of `on_create`, field by field from the first to the last |
| it replays a `Created` (start, restore, follower) | takes over `on_replayed`; nothing else |
| it cannot read or carry out one of these | stops the partition; a checkpoint record that is skipped is a wrong cut |
| it takes a snapshot while it goes on | keeps it only if `offsite.cut.bcs_snapshots` says so |
| it becomes the leader, once it has replayed | asks `offsite.cut.bcs_copies` which copies of others to fail |

All of it is pure: values in, values out. Positions are offsets of one partition's log.
"""

from __future__ import annotations

from dataclasses import dataclass

VERSION = 1
"""Of the records below. They are versioned because an engine has to be able to refuse those it does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The newest checkpoint of a partition: its id, 0 for none, and the `position` of the `Create` it was taken for, -1
    for none. The local checkpoint is everything up to that record, with it."""

    checkpoint: int = 0
    position: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Ask the partition for a checkpoint. It `is_marker` where nothing is to be uploaded: then the checkpoint is a
    moment to go back to within what other backups hold."""

    checkpoint: int
    is_marker: bool = False
    version: int = VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """The checkpoint was taken: its `Create` is at `position`."""

    checkpoint: int
    position: int
    is_marker: bool = False
    version: int = VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """A `Create` came too late: the partition's newest checkpoint is `checkpoint` already."""

    checkpoint: int
    version: int = VERSION


CheckpointRecord = Create | Created | Ignored


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """Store a copy of the local checkpoint: a base snapshot of before `position`, and the log from there to it."""

    checkpoint: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What to tell whoever asked for `asked`: the newest checkpoint is `newest`. Where that is higher, the id has been
    passed, and cannot be taken any more."""

    asked: int
    newest: int

    @property
    def is_taken(self) -> bool:
        return self.asked == self.newest

    @property
    def is_passed(self) -> bool:
        return self.asked < self.newest


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What processing one `Create` comes to.

    In the order in which it is carried out:

    1. `pin_before`: hold the newest base snapshot whose state, and whatever followed from it, ends before this position
       (`offsite.cut.bcs_snapshots.is_base`), and the log from there on, so that neither is compacted away. First of
       all: the snapshot after the next one may already contain more than the checkpoint. None: nothing to hold. Where
       there is no snapshot yet, the log from its beginning is held. If that is not possible the checkpoint goes on, and
       its copy fails.
    2. `progress` and `appended` become durable together, as the result of the record.
    3. `answer` goes to whoever asked; `upload` starts beside the processing, and ends with the release of the pin.
    """

    progress: Progress
    appended: CheckpointRecord
    answer: Answer
    pin_before: int | None = None
    upload: Upload | None = None


def on_message(progress: Progress, checkpoint: int) -> tuple[Create, ...]:
    """What to append right before a message of another partition that carries `checkpoint`; 0 or less is a sender that
    does not know of checkpoints, as during a rolling upgrade. `progress` may count a `Create` that this leader has
    appended and that still waits: what it appends now lies behind that. Otherwise each message of a burst appends one.

    The forced checkpoint uploads like any other: whether its coordinator wanted a mere marker is not known here, and a
    copy too many is no harm."""
    return (Create(checkpoint=checkpoint),) if checkpoint > progress.checkpoint else ()


def on_create(progress: Progress, create: Create, position: int) -> Step:
    """Process the `create` that lies at `position`. One that is not higher than the newest checkpoint changes nothing:
    requests are repeated, and overtake each other. Raises `ValueError` for a record of a version that is not known, or
    one that cannot be: then the partition must stop."""
    _check(create.version, create.checkpoint)
    if position <= progress.position:
        raise ValueError(f"a record at {position} cannot follow the checkpoint at {progress.position}")
    if create.checkpoint <= progress.checkpoint:
        return Step(
            progress=progress,
            appended=Ignored(checkpoint=progress.checkpoint),
            answer=Answer(asked=create.checkpoint, newest=progress.checkpoint),
        )
    taken = Progress(checkpoint=create.checkpoint, position=position)
    return Step(
        progress=taken,
        appended=Created(checkpoint=create.checkpoint, position=position, is_marker=create.is_marker),
        answer=Answer(asked=create.checkpoint, newest=create.checkpoint),
        pin_before=None if create.is_marker else position,
        upload=None if create.is_marker else Upload(checkpoint=create.checkpoint, position=position),
    )


def on_replayed(progress: Progress, created: Created) -> Progress:
    """The progress after a `created` that is replayed. It starts no upload: whoever processed its `Create` did, or has
    died, and then `offsite.cut.bcs_copies` fails the copy. Raises `ValueError` as `on_create`."""
    _check(created.version, created.checkpoint)
    if created.checkpoint <= progress.checkpoint or created.position <= progress.position:
        raise ValueError(f"{created} cannot follow {progress}")
    return Progress(checkpoint=created.checkpoint, position=created.position)


def _check(version: int, checkpoint: int) -> None:
    if version != VERSION:
        raise ValueError(f"a checkpoint record of version {version}; this engine knows {VERSION}")
    if checkpoint <= 0:
        raise ValueError(f"{checkpoint} is no id of a checkpoint: ids begin with 1")
