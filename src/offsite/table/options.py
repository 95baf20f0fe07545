"""The options of `spark.read.format("offsite")`, and stores that travel to the workers of the query. Names are read in
any case, as Spark does. Stores travel without credentials: nobody asked for credentials to travel.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from offsite.model.bounds import whole_number
from offsite.model.errors import BadOption
from offsite.model.options import Isolation
from offsite.model.secret import SecretHandling, handle_secrets
from offsite.model.selection import parse_selection, split_patterns
from offsite.model.topic_choices import parse_incarnations, parse_partitions
from offsite.points.restore_point import PointRequest

BATCH_OPTIONS = (
    "commit",
    "checkpoint",
    "asOf",
    "at",
    "incarnation",
    "startingOffset",
    "endingOffset",
    "since",
    "pushdown",
    "latest",
)
STREAM_OPTIONS = ("startingCommit", "failOnDataLoss")
_SHARED_OPTIONS = ("repo", "backup", "topics", "exclude", "partitions", "isolation", "withCommit")
ALL_OPTIONS = (*_SHARED_OPTIONS, *BATCH_OPTIONS, *STREAM_OPTIONS)

EARLIEST, LATEST = "earliest", "latest"
_BOOLEANS = {"true": True, "false": False}
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions(PointRequest):
    """Options of the table: a restore point (see `PointRequest`; the option for `committed_at` is `asOf`), in the
    backup named `backup` of `repo`, a folder or a URL.

    Only records at offsets `[starting_offset, ending_offset)`, dated from `since` on, are read. `with_commit` false
    leaves the column `commit` null, and saves reading the commit log: worth it for a backup of many thousand commits. A
    stream begins with `starting_commit`: `earliest`, `latest` (only later commits) or a number. The stream fails where
    retention has deleted rows before the stream read them, unless `fail_on_data_loss` is false.

    `latest`: of every key only the latest record as of the restore point, and none where the latest is a tombstone: the
    contents of a compacted topic. The bounds above then select among these records.

    `pushdown`: let Spark push the filters of a query down to the table, where Spark's setting
    `spark.sql.python.filterPushdown.enabled` is on. Only for a table used in one query: Spark (4.1 to 4.3) keeps one
    plan for a loaded table, so that another query on the table, or a second branch of the same query, silently gets the
    rows of the last filter. The options above narrow the read as far, and are safe.
    """

    repo: str
    backup: str
    starting_offset: int | None = None
    ending_offset: int | None = None
    since: str | None = None
    pushdown: bool = False
    latest: bool = False
    with_commit: bool = True
    starting_commit: int | str = EARLIEST
    fail_on_data_loss: bool = True
    option_names: frozenset[str] = frozenset()


def read_options(raw_options: Mapping[str, str]) -> TableOptions:
    """Parse `raw_options`. Raises `BadOption` for missing, unknown, unreadable or contradicting options."""
    names = {name.lower(): name for name in ALL_OPTIONS}
    options = {names.get(name.lower(), name): value for name, value in raw_options.items()}
    if unknown := sorted(set(options) - set(ALL_OPTIONS)):
        raise BadOption(f"the table has no option {unknown[0]!r}", hint=f"it has: {', '.join(ALL_OPTIONS)}")
    if missing := [name for name in ("repo", "backup") if not options.get(name)]:
        raise BadOption(f"the table needs the option {missing[0]!r}", hint="repo: a folder or a URL; backup: its name")
    _check_one_point(options)
    return TableOptions(
        repo=options["repo"],
        backup=options["backup"],
        selection=parse_selection(
            split_patterns(options.get("topics", "*")), split_patterns(options.get("exclude", ""))
        ),
        partitions=parse_partitions([options["partitions"]] if options.get("partitions") else []),
        commit=_number(options, "commit"),
        checkpoint=_number(options, "checkpoint"),
        committed_at=options.get("asOf"),
        starting_offset=_number(options, "startingOffset"),
        ending_offset=_number(options, "endingOffset"),
        since=options.get("since"),
        at=options.get("at"),
        incarnations=parse_incarnations(split_patterns(options.get("incarnation", ""))),
        pushdown=_BOOLEANS[_choice(options, "pushdown", ("false", "true"))],
        latest=_BOOLEANS[_choice(options, "latest", ("false", "true"))],
        isolation=Isolation(_choice(options, "isolation", tuple(Isolation))),
        with_commit=_BOOLEANS[_choice(options, "withCommit", tuple(_BOOLEANS))],
        starting_commit=_starting_commit(options),
        fail_on_data_loss=_BOOLEANS[_choice(options, "failOnDataLoss", tuple(_BOOLEANS))],
        option_names=frozenset(options),
    )


def _check_one_point(options: Mapping[str, str]) -> None:
    points = [name for name in ("commit", "checkpoint", "asOf") if name in options]
    if len(points) > 1:
        raise BadOption(f"{points[0]} and {points[1]} both name the restore point", hint="give one of them")
    if "checkpoint" in options and "at" in options:
        raise BadOption("checkpoint and at both set the end", hint="give one of them")


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if (number := whole_number(text)) is None:
        raise BadOption(f"option {name} is {text[:100]!r}, not a number")
    return number


def _choice(options: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    value = options.get(name, allowed[0]).lower()
    if value not in allowed:
        raise BadOption(f"option {name} is {value!r}", hint=f"choose one of {', '.join(allowed)}")
    return value


def _starting_commit(options: Mapping[str, str]) -> int | str:
    text = options.get("startingCommit", EARLIEST).lower()
    if text in {EARLIEST, LATEST}:
        return text
    if not (number := whole_number(text)):
        raise BadOption(f"option startingCommit is {text[:100]!r}", hint="write earliest, latest, or a commit's number")
    return number


@dataclass(frozen=True, slots=True)
class WithoutSecrets(Generic[T]):
    """Pickles `value` without secrets: a worker uses the credentials of its own environment or role. Spark pickles
    readers and partitions of a table by itself, and does not tell whether the network is encrypted."""

    value: T

    def __reduce__(self) -> tuple[Callable[[bytes], WithoutSecrets[T]], tuple[bytes]]:
        with handle_secrets(SecretHandling.READ_THERE):
            return _arrived, (pickle.dumps(self.value),)


def _arrived(pickled: bytes) -> WithoutSecrets[T]:
    return WithoutSecrets(pickle.loads(pickled))  # noqa: S301  # pickled by the driver of this query
