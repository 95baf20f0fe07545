"""The questions of `offsite restore run` on a terminal: which backup, which topics, which restore point, into which
cluster, under which names.

An answer becomes an option. Options that are typed are not asked for. Nothing is changed, and no Spark is started. The
lists name what the repository and the cluster hold; Enter takes the answer in brackets.
"""

from __future__ import annotations

import shlex
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING

from offsite.cli.commands.restore_source import RestoreRunOptions
from offsite.cli.options import checked_places
from offsite.cli.output import Line, Table, ask, note, print_lines
from offsite.cli.wiring import SparkOptions, connect, open_repository
from offsite.model.bounds import whole_number
from offsite.model.clock import SystemClock
from offsite.model.errors import BadOption
from offsite.model.names import amount, named
from offsite.model.options import with_defaults
from offsite.model.selection import parse_selection, split_patterns, to_arguments
from offsite.model.topic_choices import parse_renames
from offsite.model.units import format_size, format_time, parse_time
from offsite.restore.options import RestoreWords, parse_point

if TYPE_CHECKING:
    from offsite.overview.contents import BackupDetail, BackupSummary, TopicDetail
    from offsite.repository.repository import Repository

_LISTED_MAX = 20
"""Backups and topics in a list; others are named in the answer."""
_POINTS_LISTED = 10
_NAMED_MAX = 5
_ALL, _NEWEST = "all", "newest"
_OWN_NAMES, _NEW_NAMES = "1", "2"
_NOT_GIVEN: tuple[object, ...] = (None, [], ())
_POINT_WORDS = ("commit", "committed_at", "checkpoint", "at", "offsets_file", "before", "as_of_head")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Backup:
    """A backup by the name in the answer, as of its newest commit."""

    name: str
    detail: BackupDetail

    def topics(self) -> dict[str, TopicDetail]:
        """The topics by name, the newest incarnation of each."""
        return {topic.topic: topic for topic in self.detail.topics}


def ask_restore(options: RestoreRunOptions) -> RestoreRunOptions:
    """Ask for what the options leave open. Raises `ConfirmationMissing` at the end of the input, and the errors of
    reading a repository and a cluster."""
    note("Enter takes the answer in brackets; nothing is changed before you confirm the plan")
    repo, repository = _ask_repository(options.repo)
    backup = _ask_backup(repository)
    words = options.words.copy()
    if not words.get("topics") and not words.get("partitions"):
        words["topics"] = _ask_topics(backup)
    if all(words.get(name) in _NOT_GIVEN for name in _POINT_WORDS):
        words.update(_ask_point(backup))
    bootstrap, there = _ask_cluster(options)
    if not words.get("rename"):
        words["rename"] = _ask_names(_selected(backup, words), there)
    return replace(options, repo=repo, backup=backup.name, words=words, bootstrap=bootstrap)


def same_command(options: RestoreRunOptions, engine: SparkOptions, *, verify: bool, take_over: bool) -> str:
    """The command that does the same without a question, quoted for a shell."""
    flags = {"no_verify": not verify, "take_over": take_over, "yes": True}
    return shlex.join(["offsite", "restore", "run", *to_arguments({**_given(options), **_given(engine), **flags})])


def _given(options: RestoreRunOptions | SparkOptions) -> dict[str, object]:
    """The options that differ from their defaults, by name."""
    defaults = {field.name: None if field.default is MISSING else field.default for field in fields(options)}
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    if (words := values.pop("words", None)) is not None:
        defaults, values = defaults | dict(with_defaults(RestoreWords, {})), values | words
    return {name: value for name, value in values.items() if value not in _NOT_GIVEN and value != defaults[name]}


def _ask_repository(repo: str | None) -> tuple[str, Repository]:
    if repo is not None:
        return repo, open_repository(repo, looks=True)
    return ask("which repository, a folder or a URL?", _open)


def _open(place: str) -> tuple[str, Repository]:
    if not place:
        raise BadOption("no repository is named", hint="name a folder or a URL: s3://bucket/prefix")
    return place, open_repository(checked_places(place), looks=True)


def _ask_backup(repository: Repository) -> _Backup:
    from offsite.overview.contents import list_backups

    backups = list_backups(repository).backups
    if not backups:
        raise BadOption(f"{repository.store.url} has no backup yet", hint="make one: offsite backup run")
    print_lines(_backup_lines(backups), to=sys.stderr)
    names = [backup.backup for backup in backups]
    return ask("which backup? A number or a name", partial(_opened, repository, names), default="1")


def _opened(repository: Repository, names: Sequence[str], text: str) -> _Backup:
    from offsite.overview.contents import show_backup

    name = _numbered(names, text) or text
    if name not in names:
        raise BadOption(f"{text[:100]!r} is not a backup of the repository")
    detail = show_backup(repository.backup(name))
    if not detail.restore_points:
        raise BadOption(f"backup {name} has no restore point yet")
    return _Backup(name=name, detail=detail)


def _backup_lines(backups: Sequence[BackupSummary]) -> Iterator[Line]:
    table = Table("", "backup", "topics", "restore points", "last", "records")
    for number, backup in enumerate(backups[:_LISTED_MAX], 1):
        last = "never" if not backup.restore_points else format_time(backup.last_commit_ms)
        table.add_row(
            str(number),
            backup.backup,
            str(backup.topics),
            str(backup.restore_points),
            "DAMAGED" if backup.problem else last,
            f"{backup.records:,}",
        )
    yield table
    yield from _more(len(backups), "backup")


def _ask_topics(backup: _Backup) -> list[str] | None:
    """The patterns of the answer; None for all topics."""
    topics = backup.topics()
    print_lines(_topic_lines(list(topics.values())), to=sys.stderr)
    question = "which topics? Numbers, names or patterns, separated by commas"
    return ask(question, partial(_patterns, list(topics)), default=_ALL)


def _topic_lines(topics: Sequence[TopicDetail]) -> Iterator[Line]:
    table = Table("", "topic", "partitions", "records", "newest record", "at the source")
    for number, topic in enumerate(topics[:_LISTED_MAX], 1):
        table.add_row(
            str(number),
            topic.topic,
            str(len(topic.partitions)),
            f"{topic.records:,}",
            format_time(topic.newest_record_ms) if topic.newest_record_ms >= 0 else "-",
            "deleted" if topic.deleted_ms >= 0 else "",
        )
    yield table
    yield from _more(len(topics), "topic")


def _more(count: int, noun: str) -> Iterator[str]:
    if count > _LISTED_MAX:
        yield f"and {amount(count - _LISTED_MAX, f'more {noun}')}, to be named"


def _patterns(names: Sequence[str], text: str) -> list[str] | None:
    if text == _ALL:
        return None
    patterns = [_numbered(names, part) or part for part in split_patterns(text)]
    for pattern in patterns:
        if not parse_selection([pattern]).select(names):
            raise BadOption(f"no topic of the backup matches {pattern[:100]!r}")
    return patterns


def _numbered(names: Sequence[str], text: str) -> str | None:
    """The name with this number in its list, if listed."""
    number = whole_number(text, most=min(len(names), _LISTED_MAX))
    return names[number - 1] if number else None


def _ask_point(backup: _Backup) -> RestoreWords:
    """The words of the answer; none for the default point."""
    print_lines(_point_lines(backup.detail), to=sys.stderr)
    question = "which restore point? A commit, or a time such as '2026-11-20 14:00' or 2h-ago: records up to then"
    return ask(question, partial(_point, backup.detail), default=_NEWEST)


def _point_lines(detail: BackupDetail) -> Iterator[Line]:
    points = detail.restore_points
    table = Table("commit", "time", "records", "size", "holes")
    for point in reversed(points[-_POINTS_LISTED:]):
        table.add_row(
            str(point.seq),
            format_time(point.committed_at_ms),
            f"{point.records:,}",
            format_size(point.raw_bytes),
            str(point.holes),
        )
    yield table
    if len(points) > _POINTS_LISTED:
        yield f"and {amount(len(points) - _POINTS_LISTED, 'older restore point')}, from commit {points[0].seq} on"
    if detail.default is not None and detail.default.newer is not None:
        yield f"{_NEWEST} means commit {detail.default.commit}: {detail.default.newer}"


def _point(detail: BackupDetail, text: str) -> RestoreWords:
    if text == _NEWEST:
        return {}
    points, number = detail.restore_points, whole_number(text)
    if number is not None:
        index = bisect_left(points, number, key=lambda point: point.seq)
        if index < len(points) and points[index].seq == number:
            return {"commit": number}
    try:
        return {"at": format_time(parse_time(text, now_ms=SystemClock().now_ms()))}
    except BadOption as error:
        raise BadOption(f"{text[:100]!r} is neither a restore point nor a time", hint=error.hint) from error


def _ask_cluster(options: RestoreRunOptions) -> tuple[str | None, frozenset[str]]:
    """The address of the brokers, None for that of the file, and the topics that the cluster has."""
    given = options.bootstrap or ("that of --kafka-config" if options.kafka_config is not None else "")

    def connected(text: str) -> tuple[str | None, frozenset[str]]:
        if not text:
            raise BadOption("no broker is named", hint="type host:port of a broker")
        bootstrap = options.bootstrap if text == given else text
        return bootstrap, frozenset(connect(bootstrap, options.kafka_config).admin.topics())

    return ask("into which cluster? Brokers, as host:port[,host:port]", connected, default=given)


def _selected(backup: _Backup, words: RestoreWords) -> Sequence[str]:
    """The topics of the newest commit that the words select."""
    return parse_point(words).selection.select(backup.topics())


def _ask_names(topics: Sequence[str], there: frozenset[str]) -> list[str] | None:
    """The renames of the answer; None for the topics' own names."""
    prefix = _free_prefix(topics, there)
    existing = [topic for topic in topics if topic in there]
    if existing:
        note(f"{named(existing, most=_NAMED_MAX)} exists in the cluster: a restore writes only into empty topics")
    table = Table("", "names", "")
    table.add_row(_OWN_NAMES, "their own", named(topics, most=_NAMED_MAX))
    table.add_row(_NEW_NAMES, "new", named([f"{prefix}{topic}" for topic in topics], most=_NAMED_MAX))
    print_lines([table], to=sys.stderr)
    question = "under which names? A number, or old=new, with * for any part"
    return ask(question, partial(_renames, f"*={prefix}*", topics), default=_NEW_NAMES if existing else _OWN_NAMES)


def _free_prefix(topics: Sequence[str], there: frozenset[str]) -> str:
    """A prefix that makes every name one that the cluster does not have."""
    prefix, number = "restored-", 1
    while any(f"{prefix}{topic}" in there for topic in topics):
        number += 1
        prefix = f"restored-{number}-"
    return prefix


def _renames(new: str, topics: Sequence[str], text: str) -> list[str] | None:
    if text == _OWN_NAMES:
        return None
    renames = [new] if text == _NEW_NAMES else split_patterns(text)
    parse_renames(renames).target_names(topics)
    return renames
