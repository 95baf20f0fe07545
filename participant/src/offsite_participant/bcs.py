"""Communication-induced checkpoints (BCS) for one partition of a log processor, to be embedded in its engine.

Briatico, Ciuffoletti and Simoncini (1984), as used by Zeebe's ZEP008: every message between partitions carries the
number of its sender's newest checkpoint. A receiver with a lower number takes that checkpoint first. All local
checkpoints with the same number are a consistent cut. The protocol needs no order, and bears loss, delay and
repetition, because of a single invariant: **every message that a partition handles before its `Create(n)` was sent by a
partition before its own `Create(n)`.**

The engine has a log of committed records and a state that follows from the log. The engine's part, in order:

| the engine | and |
|---|---|
| sends a message to another partition | puts `Progress.checkpoint` on the message (later is safe, earlier is not) |
| receives a message | appends the records of `on_message` and the message; or drops both: the sender repeats |
| processes a `Create` | carries out the `Step` of `on_create`, field by field from the first to the last |
| replays a `Created` (start, restore, follower) | takes over `on_replayed`; nothing else |
| cannot read or carry out a record | stops the partition; a skipped checkpoint record makes a wrong cut |
| takes a snapshot while processing | keeps the snapshot only if `offsite_participant.bcs_snapshots` says so |
| becomes the leader, after replaying | asks `offsite_participant.bcs_copies` which copies of earlier leaders to fail |

All functions are pure: values in, values out. Positions are offsets of one partition's log.
"""

from __future__ import annotations

from dataclasses import dataclass

VERSION = 1
"""Version of the records below. An engine has to be able to refuse records of unknown versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The newest checkpoint of a partition: the id, 0 for none, and the `position` of its `Create`, -1 for none. The
    local checkpoint is everything up to `position`, inclusive."""

    checkpoint: int = 0
    position: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Ask the partition for a checkpoint. `is_marker`: nothing is to be uploaded; the checkpoint is a moment to go back
    to within existing backups."""

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
    """Store a copy of the local checkpoint: a base snapshot from before `position`, and the log from the snapshot to
    `position`."""

    checkpoint: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a request for checkpoint `asked`: the newest checkpoint is `newest`. If `newest` is higher, the id
    was passed and can no longer be taken."""

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
    """The result of processing a `Create`.

    Carried out in the order:

    1. `pin_before`: hold the newest base snapshot whose state, with all consequences, ends before the position
       (`offsite_participant.bcs_snapshots.is_base`), and the log from the snapshot on, against compaction. The pin
       comes first: the snapshot after the next may already contain more than the checkpoint. None: nothing to hold.
       Without any snapshot, the log is held from its beginning. If holding is impossible, the checkpoint continues, and
       its copy fails.
    2. `progress` and `appended` become durable together, as the result of the record.
    3. `answer` goes to the requester; `upload` starts beside the processing, and ends with the release of the pin.
    """

    progress: Progress
    appended: CheckpointRecord
    answer: Answer
    pin_before: int | None = None
    upload: Upload | None = None


def on_message(progress: Progress, checkpoint: int) -> tuple[Create, ...]:
    """The records to append right before a message of another partition that carries `checkpoint`. 0 or less marks a
    sender without checkpoints, as during a rolling upgrade. `progress` may count a `Create` that the leader has
    appended and not processed yet: records appended now lie behind it. Otherwise every message of a burst would append
    a record.

    The forced checkpoint uploads like any other. Whether its coordinator wanted only a marker is unknown here, and an
    extra copy does no harm.
    """
    return (Create(checkpoint=checkpoint),) if checkpoint > progress.checkpoint else ()


def on_create(progress: Progress, create: Create, position: int) -> Step:
    """Process the `create` at `position`. A `create` that is not higher than the newest checkpoint changes nothing:
    requests are repeated, and arrive out of order. Raises `ValueError` for a record of an unknown version and for an
    impossible record: the partition must stop in both cases."""
    _check(create.version, create.checkpoint)
    if position <= progress.position:
        raise ValueError(f"a record at {position} cannot follow the checkpoint at {progress.position}")
    if create.checkpoint <= progress.checkpoint:
        return Step(
            progress=progress,
            appended=Ignored(checkpoint=progress.checkpoint),
            answer=Answer(asked=create.checkpoint, newest=progress.checkpoint),
        )
    progress_after = Progress(checkpoint=create.checkpoint, position=position)
    return Step(
        progress=progress_after,
        appended=Created(checkpoint=create.checkpoint, position=position, is_marker=create.is_marker),
        answer=Answer(asked=create.checkpoint, newest=create.checkpoint),
        pin_before=None if create.is_marker else position,
        upload=None if create.is_marker else Upload(checkpoint=create.checkpoint, position=position),
    )


def on_replayed(progress: Progress, created: Created) -> Progress:
    """The progress after a replayed `created`. Starts no upload: the leader that processed its `Create` started the
    upload, or has died; after a death `offsite_participant.bcs_copies` fails the copy. Raises `ValueError` as
    `on_create`."""
    _check(created.version, created.checkpoint)
    if created.checkpoint <= progress.checkpoint or created.position <= progress.position:
        raise ValueError(f"{created} cannot follow {progress}")
    return Progress(checkpoint=created.checkpoint, position=created.position)


def _check(version: int, checkpoint: int) -> None:
    if version != VERSION:
        raise ValueError(f"a checkpoint record of version {version}; this engine knows {VERSION}")
    if checkpoint <= 0:
        raise ValueError(f"{checkpoint} is not a checkpoint id: ids begin with 1")
