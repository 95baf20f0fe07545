"""The desired state of a declared restore: its repository, its tag, and the command line of all its attempts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offsite.model.errors import BadName, BadOption, BadResource
from offsite.model.names import check_backup_name
from offsite.model.options import Keyless
from offsite.model.selection import NONE, split_patterns
from offsite.model.topic_choices import parse_partition_counts
from offsite.model.units import format_time, parse_rate, parse_time
from offsite.operator.decide.desired import Account, RepositoryPlace, account_of, foreign_query, place_of
from offsite.operator.decide.options import option_words
from offsite.operator.resources.jobs import Restore, RestoreSpec, RestoreState
from offsite.restore.options import parse_batch_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredRestore:
    """The desired state of a restore. `source_cluster`: the required source cluster of the backup; empty: any.
    `arguments`: the command line, without repository and cluster. `name`: for people."""

    uid: str
    state: RestoreState
    place: RepositoryPlace
    backup: str
    cluster: str
    tag: str
    source_cluster: str
    arguments: tuple[str, ...]
    name: str = ""


def resolve_restore(restore: Restore, accounts: Sequence[Account], *, current_account: str = "") -> DesiredRestore:
    """Resolve `restore` into its desired state. `current_account`: the account of a restore that names none. Raises
    `BadResource`."""
    spec, who = restore.spec, f"restore {restore.metadata.name}"
    repository, _, backup = spec.backup_url.rpartition("#")
    if problem := foreign_query(repository, "spec.backupUrl"):
        raise BadResource(problem)
    account = account_of(spec.account or current_account, accounts, who)
    try:
        check_backup_name(backup)
    except BadName as error:
        raise BadResource(f"{who}: {error.message}", hint="write backupUrl as REPOSITORY#BACKUP") from error
    return DesiredRestore(
        uid=restore.metadata.uid,
        state=spec.state,
        place=place_of(account, repository),
        backup=backup,
        cluster=spec.cluster,
        tag=spec.tag,
        source_cluster=spec.source_cluster if spec.timestamp and not spec.commit else "",
        arguments=restore_words(spec, backup, who),
        name=restore.metadata.name,
    )


def resolve_stopped_restore(uid: str, place: RepositoryPlace, *, cluster: str, tag: str) -> DesiredRestore:
    """Return the desired state of a deleted restore: stopped. No attempt starts."""
    return DesiredRestore(
        uid=uid,
        state=RestoreState.STOPPED,
        place=place,
        backup="",
        cluster=cluster,
        tag=tag,
        source_cluster="",
        arguments=(),
    )


def restore_words(spec: RestoreSpec, backup: str, who: str) -> tuple[str, ...]:
    """Return the command line of a restore. All attempts have the same command line, and the command continues a former
    attempt. Raises `BadResource`."""
    if not spec.topics:
        raise BadResource(f"{who}: it names no topics", hint="omit topics to restore all topics of the backup")
    _check_limits(spec, who)
    point = {"commit": spec.commit or None, "committed-at": None if spec.commit else _time(spec.timestamp, who)}
    words = option_words(
        who,
        {
            "backup": backup,
            **point,
            "topics": spec.topics,
            "rename": spec.rename,
            "repartition": spec.repartition,
            "keyless": spec.keyless if spec.keyless != Keyless.DEFAULT.value else None,
            "batch-bytes": spec.batch_bytes or None,
            "write-limit": spec.write_limit or None,
            "offsets": spec.offsets,
            "groups": tuple(split_patterns(spec.groups)) or (NONE,),
        },
    )
    return ("restore", "run", *words, "--yes")


def _check_limits(spec: RestoreSpec, who: str) -> None:
    """Check the limits of a restore like its command, with field names in the errors. Raises `BadResource`."""
    try:
        if spec.write_limit:
            parse_rate(spec.write_limit, "spec.writeLimit")
        parse_batch_bytes(spec.batch_bytes or None, "spec.batchBytes")
    except BadOption as error:
        raise BadResource(f"{who}: {error.message}", hint=error.hint) from error
    try:
        parse_partition_counts(spec.repartition)
    except (BadOption, BadName) as error:
        raise BadResource(f"{who}: spec.repartition: {error.message}", hint="write orders=12, or 12 for all") from error


def _time(timestamp: str, who: str) -> str | None:
    """Return one absolute time in UTC: `2h-ago` would be another time for every attempt."""
    if not timestamp:
        return None
    try:
        times = {parse_time(timestamp, now_ms=now_ms) for now_ms in (0, 1)}
    except (BadOption, ValueError, OverflowError) as error:
        said = error.message if isinstance(error, BadOption) else f"{timestamp[:40]!r} is not a time"
        raise BadResource(f"{who}: {said}", hint="write it as 2026-11-20T14:00:00Z") from error
    if len(times) > 1:
        raise BadResource(f"{who}: {timestamp!r} is a relative time", hint="write an absolute date and time")
    return format_time(times.pop())
