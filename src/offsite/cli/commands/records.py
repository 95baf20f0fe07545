"""`offsite cat` and `offsite search`: records of a backup, in order, or by a search, decoded for people.

A record is a line of text, safe for any terminal: unprintable characters are escaped.
"""

from __future__ import annotations

import base64
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options import BackupName, Output, Repo, WordChoice, takes
from offsite.cli.output import OutputFormat, emit_bytes, emit_each, note
from offsite.cli.wiring import SparkOptions, open_repository, spark
from offsite.model.bounds import MAX_OFFSET
from offsite.model.errors import BadOption
from offsite.model.names import amount
from offsite.model.selection import split_all
from offsite.model.units import format_size, format_time
from offsite.model.untrusted.text import decode_text, printable
from offsite.restore.options import PointWords, parse_point

if TYPE_CHECKING:
    from offsite.points.restore_point import PointRequest
    from offsite.schemas.shown_bytes import ShownBytes
    from offsite.table.search import RecordsPlan, SearchResult
    from offsite.table.shown_record import ShownRecord

From = Annotated[
    str | None,
    typer.Option("--from", help="Start at this offset or time (2026-11-20T14:00Z, 2h-ago)."),
]
To = Annotated[str | None, typer.Option("--to", help="End before this offset or time.")]
PointOptions = Annotated[
    PointWords,
    WordChoice(
        but=("topics", "exclude", "partitions", "offsets_file", "before"),
        help={"isolation": "Whether records of aborted transactions are shown."},
    ),
]

DEFAULT_LIMIT = 1000
NULL = "NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions:
    """Options of both commands, as typed: the records and the restore point."""

    repo: Repo
    backup: BackupName
    start: From = None
    end: To = None
    words: PointOptions = field(default_factory=PointWords)


def record_point(
    options: RecordOptions, *, topics: list[str] | None, partitions: list[str] | None = None
) -> PointRequest:
    """Return the restore point named by the options, with the topics and partitions to read. Raises `BadOption`,
    `BadName`."""
    return parse_point({**options.words, "topics": topics, "partitions": partitions})


def note_incarnations(plan: RecordsPlan) -> None:
    """Print on stderr the displayed incarnation of topics that were deleted and recreated."""
    from offsite.points.incarnations import incarnation_notes

    for line in incarnation_notes(plan.point.incarnations):
        note(line)


def check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise BadOption(f"--limit must be 1 or more, not {limit}", hint="omit it to see all")
    if limit is not None and limit >= MAX_OFFSET:
        raise BadOption("--limit is larger than any partition", hint="omit it to see all")


Place = Annotated[str, typer.Argument(metavar="TOPIC[/PARTITION]", help="What to show, as orders or orders/3.")]
CatLimit = Annotated[int | None, typer.Option("--limit", "-n", help="Maximum number of records to show.")]
Raw = Annotated[bool, typer.Option("--raw", help="Only the raw values, one per line.")]
Latest = Annotated[
    bool,
    typer.Option("--latest", help="Only the latest record of each key, as in a compacted topic; without deleted keys."),
]


@takes(RecordOptions)
def cat(
    options: RecordOptions,
    where: Place,
    limit: CatLimit = None,
    raw: Raw = False,
    latest: Latest = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show records of a backup in the order of their offsets. One partition comes after the other.

    Values are decoded where possible: JSON, and Avro, JSON and Protobuf by the schemas of a schema registry in the
    backup, with the name, version and subject of the schema behind the value. Bytes other than text are shown in hex.
    -o jsonl prints a record a line as it is read, -o json one document. With --latest each partition is read to its end
    before its first record is shown.
    """
    from offsite.table.search import cat_records, raw_values

    plan = _plan(options, where, limit, latest=latest)
    note_incarnations(plan)
    if raw:
        _check_not_a_terminal()
        emit_bytes(raw_values(plan), after_each=b"\n")
    else:
        emit_each(cat_records(plan), name="records", output=output, line=record_line)


def _plan(options: RecordOptions, where: str, limit: int | None, *, latest: bool) -> RecordsPlan:
    from offsite.table.search import RecordsRequest, plan_records

    check_limit(limit)
    topic, _, partition = where.partition("/")
    point = record_point(options, topics=[topic], partitions=[f"{topic}:{partition}"] if partition else None)
    request = RecordsRequest(point=point, start=options.start, end=options.end, limit=limit, latest=latest)
    return plan_records(open_repository(options.repo, looks=True).backup(options.backup), request)


def _check_not_a_terminal() -> None:
    if sys.stdout.isatty():
        raise BadOption("--raw output can disturb a terminal", hint="send it to a file or a pipe")


Topics = Annotated[
    list[str] | None,
    typer.Option("--topics", help="Topics to search [default: all of the backup].", callback=split_all),
]
Partitions = Annotated[
    list[str] | None, typer.Option("--partitions", help="orders:0,2-5: of that topic, only these partitions.")
]
Key = Annotated[str | None, typer.Option("--key", help="Records with exactly this key.")]
KeyHex = Annotated[str | None, typer.Option("--key-hex", help="Records with exactly this key in hex, such as 00ff12.")]
Value = Annotated[str | None, typer.Option("--value", help="Records with this text anywhere in the value.")]
Header = Annotated[
    list[str] | None, typer.Option("--header", help="name, or name=value: records with this header. May be repeated.")
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="POINTER[OP VALUE]",
        help="Records whose decoded value (JSON, Avro, Protobuf) has this place, by a JSON pointer: /customer/id=42, "
        "/total>=100, /email. OP: =, !=, <, <=, > or >=. May be repeated.",
    ),
]
MatchFile = Annotated[
    str | None,
    typer.Option(
        "--match-file",
        metavar="FILE|-",
        help="Conditions from a file, or - for standard input, hidden from other users of this machine: lines such as "
        "value=TEXT.",
    ),
]
SearchLimit = Annotated[int, typer.Option("--limit", "-n", help="Maximum number of records to show.")]


@takes(RecordOptions, SparkOptions)
def search(
    options: RecordOptions,
    engine: SparkOptions,
    topics: Topics = None,
    partitions: Partitions = None,
    key: Key = None,
    key_hex: KeyHex = None,
    value: Value = None,
    header: Header = None,
    where: Where = None,
    match_file: MatchFile = None,
    limit: SearchLimit = DEFAULT_LIMIT,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Find records by key, value, header and time. A record must match all conditions.

    --value searches values as stored: text in Avro or JSON is found, a number in Avro is not. --where looks into values
    decoded by the schemas of the backup. A search that stops at its limit says how far it came. Other users of the
    machine can see a command line: give private values with --match-file.
    """
    from offsite.table.match_words import parse_match
    from offsite.table.search import RecordsRequest, plan_records

    check_limit(limit)
    request = RecordsRequest(
        point=record_point(options, topics=topics, partitions=partitions),
        start=options.start,
        end=options.end,
        match=parse_match(_conditions(match_file, key=key, key_hex=key_hex, value=value, header=header, where=where)),
        limit=limit,
    )
    plan = plan_records(open_repository(options.repo, looks=True).backup(options.backup), request)
    note_incarnations(plan)
    result = _search(plan, engine)
    reach = {name: getattr(result, name) for name in ("complete", "searched_bytes", "total_bytes")}
    emit_each(result.records, name="records", output=output, line=record_line, more=reach)
    if not result.complete:
        searched = f"searched at most {format_size(result.searched_bytes)} of {format_size(result.total_bytes)}"
        note(f"there are more than {amount(limit, 'record')} ({searched}); see them with --limit")


def _search(plan: RecordsPlan, engine: SparkOptions) -> SearchResult:
    from offsite.cli.progress import progress
    from offsite.table.search import SearchResult, search_records

    if not plan.tasks:
        return SearchResult(records=(), complete=True, searched_bytes=0, total_bytes=0)
    with (
        spark(engine.choice(), preload="offsite.table.scan") as runner,
        progress("search", total_bytes=plan.raw_bytes) as on_progress,
    ):
        return search_records(plan, runner, on_progress=on_progress)


def _conditions(match_file: str | None, **typed: str | list[str] | None) -> dict[str, list[str]]:
    """Return the typed conditions and the conditions of the file, by name. An error never quotes a wrong line. Raises
    `BadOption`."""
    conditions = {name: [value] if isinstance(value, str) else list(value or ()) for name, value in typed.items()}
    try:
        text = (
            ""
            if match_file is None
            else sys.stdin.read()
            if match_file == "-"
            else decode_text(Path(match_file).read_bytes())
        )
    except (OSError, ValueError) as error:
        raise BadOption(f"--match-file cannot be read: {error}", hint="name a file of text") from error
    for number, line in enumerate(text.splitlines(), 1):
        name, equals, words = line.partition("=")
        if line and (not equals or (kind := name.strip().replace("-", "_")) not in conditions):
            raise BadOption(f"line {number} of --match-file is not a condition", hint="write it as value=TEXT")
        if line:
            conditions[kind].append(words)
    return conditions


def record_line(record: ShownRecord) -> str:
    """Format the record as a line: `topic/partition@offset  time  key  value  name=value …`."""
    time = format_time(record.timestamp_ms) if record.timestamp_ms != -1 else "-"
    headers = [f"{printable(header.name)}={_shown(header.value)}" for header in record.headers]
    place = f"{record.topic}/{record.partition}@{record.offset}"
    return "  ".join([place, time, _shown(record.key), _shown(record.value), *headers])


def _shown(shown: ShownBytes | None) -> str:
    if shown is None:
        return NULL
    match shown.encoding, shown.data:
        case "text", str(text):
            return printable(text)
        case "base64", str(data):
            schema = "" if shown.schema_id is None else f"schema {shown.schema_id}?:"
            return f"{schema}hex:{base64.b64decode(data).hex()}"
        case _, data:
            name = "" if shown.schema is None else f" ({shown.schema})"
            return printable(f"{json.dumps(data, ensure_ascii=False)}{name}")
