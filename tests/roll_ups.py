"""Roll-ups of exactly the segments that a test names."""

from __future__ import annotations

from collections.abc import Sequence

from offsite.backup.copy import BackupEnds
from offsite.kafka.config import BrokerAddress, KafkaConfig
from offsite.model.options import CompressionChoice
from offsite.repository.backup import Backup
from offsite.repository.commit import CommitChanges
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState
from offsite.upkeep.roll_up import RollUp, RollUpShare, roll_up_all


def rolled_up(backup: Backup, chosen: Sequence[Sequence[Segment]], *, alone: bool) -> CommitChanges:
    """Write one segment for each of `chosen`, neighbours, in one pack unless `alone`; commits nothing."""
    kafka = KafkaConfig(bootstrap=(BrokerAddress(host="none", port=1),))
    ends = BackupEnds(kafka=kafka, store=backup.store, layout=backup.layout, compression=CompressionChoice.NONE)
    roll_ups = tuple(RollUp(segments=tuple(each), alone=alone) for each in chosen)
    tasks = [RollUpShare(roll_ups=(each,), packed=False) for each in roll_ups]
    if not alone:
        tasks = [RollUpShare(roll_ups=roll_ups, packed=True)]
    made = [each for task in tasks for each in roll_up_all(task, ends=ends, base=backup.state().seq)]
    assert None not in made
    removed = tuple(segment.key for each in chosen for segment in each)
    return CommitChanges(segments=tuple(each for each in made if each), removed=removed)


def roll_up(backup: Backup, chosen: Sequence[Sequence[Segment]], *, alone: bool) -> BackupState:
    """The same, in a commit."""
    state = backup.state()
    return backup.commit(rolled_up(backup, chosen, alone=alone), base=state, writer=f"roll-up-{state.seq}")
