"""Carries out a planned restore of a command topic: first a copy of the topic, then the new topic, then a proof.

After a crash the same command begins again, and ends the same: the topic is created empty, and all commands are
written. The first attempt's copy holds the topic from before the first attempt; each attempt keeps its own copy: a file
in the form of backups, under a name outside of the backups' names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.net.routing import Router
from offsite.kafka.offsets import await_end_offset
from offsite.kafka.protocol.broker_errors import TOPIC_AUTHORIZATION_FAILED
from offsite.kafka.protocol.metadata import NewTopic
from offsite.kafka.small_log import OrderedTransactions
from offsite.log.range import TopicPartition
from offsite.log.records.batch_records import encode_batches, renumber
from offsite.log.records.record import CREATE_TIME, Record
from offsite.metastore.backup_file import BackupFile, load
from offsite.metastore.reading import UNKNOWN
from offsite.metastore.restore_plan import ExistingTopic, MetastoreRestorePlan, at_its_offset
from offsite.metastore.source import CommandSource
from offsite.metastore.stored_command import Header
from offsite.model.clock import Clock
from offsite.model.errors import BackupFileDamaged, KafkaNotAuthorized, PlanChanged, TargetDisturbed
from offsite.model.names import amount
from offsite.model.version import __version__

_SUFFIX = ".replaced"
_PLAIN = 0
"""Commands are written uncompressed, as by ksqlDB."""
_DECIDED_WITHIN_S = 5.0
"""Seconds until the marker of a killed attempt's open transaction is in the log, with a margin."""
_LOOK_AGAIN_S = 0.2
_AHEAD_MAX_MS = 30 * 60 * 1000
"""How far a command may be ahead of this clock: brokers of 4.0 and later accept an hour by default."""
_REPLACING = {"READ": 3, "WRITE": 4, "DELETE": 6}
"""Operations on the replaced topic, with the codes of Kafka's AclOperation."""


def keep_copy(folder: Path, header: Header, records: Sequence[Record]) -> Path:
    """Write the commands into a new file in `folder`, and read the file again. Raises `BackupFileDamaged` if it does
    not hold the commands, and errors of writing a file."""
    with BackupFile.create_named(folder, f"{header.topic}_{header.created_at_ms}{_SUFFIX}", header) as file:
        file.append(records)
    read = load(file.path)
    if read.problems or [command.record for command in read.commands] != list(records):
        raise BackupFileDamaged(f"{file.path} differs from the written data", hint="check the disk")
    return file.path


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreRestoreResult:
    """The result of a restore. `copy`: the copy of the topic's old content, None if none existed. `verified`: the topic
    was read again, and holds exactly these commands, at their original offsets if `same_offsets`."""

    topic: str
    commands: int
    skipped: int
    same_offsets: bool
    copy: Path | None
    verified: bool


def read_existing(source: CommandSource, admin: ClusterAdmin) -> ExistingTopic | None:
    """The topic's current content; None without a topic. Raises as `CommandSource`."""
    topic = source.find()
    if topic is None:
        return None
    portion = source.read(source.start(), topic_id=topic.topic_id)
    return ExistingTopic(
        records=portion.records,
        configs=dict(admin.topic_configs([topic.name])[topic.name]),
        replication_factor=topic.replication_factor,
        undecided=portion.end < portion.seen_end,
        end=portion.seen_end,
    )


def run_restore(plan: MetastoreRestorePlan, router: Router, *, clock: Clock) -> MetastoreRestoreResult:
    """Carry out the plan. Raises `KafkaNotAuthorized` if not all operations are allowed, before any change;
    `PlanChanged` if the topic differs from the plan; `TargetDisturbed` if the topic does not hold the written commands
    afterwards; and errors of Kafka."""
    source, admin = CommandSource(router, plan.topic), ClusterAdmin(router)
    copy = None
    # 1. The commands are there: only correct the settings.
    if plan.is_there_already and plan.lacking:
        admin.alter_topic_configs({plan.topic: plan.lacking})
    # 2. Otherwise keep a copy, create the topic again, and write all commands.
    if not plan.is_there_already:
        _check_may_replace(plan, admin)
        where = TopicPartition(topic=plan.topic, partition=0)
        # OrderedTransactions ends a killed attempt's open transaction here. Later its marker would come into the new
        # topic; before its end it hides the following commands from the copy.
        with OrderedTransactions(router, where, f"offsite-metastore-{plan.topic}") as transactions:
            copy = _keep(plan, source, admin, clock=clock)
            _make_topic(plan, admin)
            end = _write(plan, transactions, now_ms=clock.now_ms())
        await_end_offset(router, where, end)
    # 3. Read the topic again, and compare.
    _prove(plan, source)
    return MetastoreRestoreResult(
        topic=plan.topic,
        commands=plan.commands,
        skipped=len(plan.skipped),
        same_offsets=plan.placement.same_offsets,
        copy=copy,
        verified=True,
    )


def _check_may_replace(plan: MetastoreRestorePlan, admin: ClusterAdmin) -> None:
    """Check the rights to create and write the topic before deleting it."""
    if plan.existing is None:
        return
    denied = list(admin.not_allowed([plan.topic], _REPLACING).get(plan.topic, ()))
    refusal = admin.refused_topics([_new_topic(plan)]).get(plan.topic)
    if refusal is not None and refusal.error_code == TOPIC_AUTHORIZATION_FAILED:
        denied.append("CREATE")
    if denied:
        raise KafkaNotAuthorized(
            f"the principal may not {', '.join(denied)} on topic {plan.topic}: nothing was done",
            hint="grant the principal these operations on the topic",
        )


def _keep(plan: MetastoreRestorePlan, source: CommandSource, admin: ClusterAdmin, *, clock: Clock) -> Path | None:
    now = _decided(source, admin, clock=clock)
    planned = plan.existing
    if (now is None) != (planned is None) or (now and planned and list(now.records) != list(planned.records)):
        raise PlanChanged(
            f"{plan.topic} has changed since the plan: nothing was done",
            hint="stop the ksqlDB servers, and plan again",
        )
    if now is None or not now.records:
        return None
    topic = source.find()
    header = Header(
        topic=plan.topic,
        cluster_id=topic.cluster_id if topic else "",
        topic_id=str(topic.topic_id or "") if topic else "",
        created_at_ms=clock.now_ms(),
        created_by=__version__,
        replication_factor=now.replication_factor,
        configs=now.configs,
    )
    copy = keep_copy(plan.file.parent, header, now.records)
    if source.end() != now.end:
        raise PlanChanged(
            f"{plan.topic} received records during the copy: nothing was deleted",
            hint="stop the ksqlDB servers, and plan again",
        )
    return copy


def _decided(source: CommandSource, admin: ClusterAdmin, *, clock: Clock) -> ExistingTopic | None:
    """The topic's content, once no transaction is open. Raises `PlanChanged` if a transaction stays open: commands
    after it may be committed, are unreadable, and would be deleted without a copy."""
    until_s = clock.monotonic_s() + _DECIDED_WITHIN_S
    while (now := read_existing(source, admin)) and now.undecided:
        if clock.monotonic_s() > until_s:
            raise PlanChanged(
                f"a transaction is open in {source.topic}, so later commands cannot be copied: nothing was done",
                hint=(
                    "stop the ksqlDB servers; the brokers abort the transaction at its timeout; "
                    "kafka-transactions.sh can abort it earlier"
                ),
            )
        clock.sleep(_LOOK_AGAIN_S)
    return now


def _make_topic(plan: MetastoreRestorePlan, admin: ClusterAdmin) -> None:
    if plan.existing is not None:
        admin.delete_topics([plan.topic])
    admin.create_topics([_new_topic(plan)])


def _new_topic(plan: MetastoreRestorePlan) -> NewTopic:
    return NewTopic(name=plan.topic, partitions=1, replication_factor=plan.replication_factor, configs=plan.configs)


def _write(plan: MetastoreRestorePlan, transactions: OrderedTransactions, *, now_ms: int) -> int:
    """The end of the log after the last marker."""
    end = 0
    for transaction in plan.placement.transactions:
        transactions.commit(_batches(transaction.records, now_ms))
        end += len(transaction.records) + 1
    return end


def _batches(records: Sequence[Record], now_ms: int) -> list[bytearray]:
    """One batch per command, as ksqlDB writes them: the plan sizes the topic for the largest command. Broker timestamps
    become create timestamps. Commands without a time, and commands dated in the future, get the current time: brokers
    refuse future times (message.timestamp.after.max.ms), with the old topic already deleted."""
    dated = [record._replace(timestamp_type=CREATE_TIME, timestamp_ms=_time_ms(record, now_ms)) for record in records]
    return [batch for record in dated for batch in encode_batches([renumber([record])], codec=_PLAIN)]


def _time_ms(record: Record, now_ms: int) -> int:
    is_to_come = record.timestamp_ms > now_ms + _AHEAD_MAX_MS
    return now_ms if record.offset == UNKNOWN or is_to_come else record.timestamp_ms


def _prove(plan: MetastoreRestorePlan, source: CommandSource) -> None:
    expected = [record for transaction in plan.placement.transactions for record in transaction.records]
    topic = source.find()
    actual = source.read(source.start(), topic_id=topic.topic_id).records if topic else ()
    is_same = _contents(actual) == _contents(expected)
    if is_same and plan.placement.same_offsets:
        is_same = all(map(at_its_offset, actual, expected))
    if not is_same:
        raise TargetDisturbed(
            f"{plan.topic} differs from the written commands: {amount(len(actual), 'command')} instead of "
            f"{len(expected)}",
            hint="if a ksqlDB server is running and writes to the topic, stop it, then run the same command again",
        )


def _contents(records: Sequence[Record]) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in records]
