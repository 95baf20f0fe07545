"""`offsite search`: which records of a backup have a key, a header, or something in their value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options.common import Output, SparkMaster
from offsite.cli.options.option_group import takes
from offsite.cli.options.record import RecordOptions, check_limit, note_incarnations, record_point
from offsite.cli.output import OutputFormat, emit_each, note
from offsite.cli.wiring import open_repository, spark
from offsite.model.errors import BadOption

if TYPE_CHECKING:
    from offsite.services.records.find import RecordsPlan
    from offsite.services.records.shown_record import ShownRecord
    from offsite.table.find import RecordMatch

DEFAULT_LIMIT = 1000

Topics = Annotated[list[str] | None, typer.Option("--topics", help="Topics to search [default: all of the backup].")]
Partitions = Annotated[
    list[str] | None, typer.Option("--partitions", help="orders:0,2-5: of that topic, only these partitions.")
]
Key = Annotated[str | None, typer.Option("--key", help="Records with exactly this key.")]
KeyHex = Annotated[str | None, typer.Option("--key-hex", help="The same for a key that is no text, as 00ff12.")]
Value = Annotated[str | None, typer.Option("--value", help="Records with this text somewhere in their value.")]
Header = Annotated[
    list[str] | None, typer.Option("--header", help="name, or name=value: records with such a header. Can be repeated.")
]
Limit = Annotated[int, typer.Option("--limit", "-n", help="Show no more than the first so many.")]


@takes(RecordOptions)
def search(
    options: RecordOptions,
    topics: Topics = None,
    partitions: Partitions = None,
    key: Key = None,
    key_hex: KeyHex = None,
    value: Value = None,
    header: Header = None,
    limit: Limit = DEFAULT_LIMIT,
    spark_master: SparkMaster = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Find records by key, value, header and time. What is given must all be so.

    Values are searched as they are stored: text in Avro or JSON is found, a number in Avro is not.
    """
    from offsite.cli.views.record_line import record_line
    from offsite.services.records.find import RecordsRequest, plan_records

    check_limit(limit)
    request = RecordsRequest(
        point=record_point(options, topics=topics, partitions=partitions),
        start=options.start,
        end=options.end,
        match=_match(key, key_hex, value, header or []),
        limit=limit + 1,  # one more tells whether there are more
    )
    plan = plan_records(open_repository(options.repo).backup(options.backup), request)
    note_incarnations(plan)
    found = _search(plan, spark_master) if plan.tasks else []
    emit_each(found[:limit], name="records", output=output, line=record_line)
    if len(found) > limit:
        note(f"there are more than {limit} records; see them with --limit")


def _search(plan: RecordsPlan, spark_master: str | None) -> list[ShownRecord]:
    from offsite.cli.progress import progress
    from offsite.services.records.find import search_records

    with (
        spark(spark_master, preload="offsite.table.find") as runner,
        progress("search", total_bytes=plan.raw_bytes) as on_progress,
    ):
        return search_records(plan, runner, on_progress=on_progress)


def _match(key: str | None, key_hex: str | None, value: str | None, headers: list[str]) -> RecordMatch:
    from offsite.table.find import RecordMatch

    if key is not None and key_hex is not None:
        raise BadOption("--key and --key-hex both name the key", hint="give one of them")
    match = RecordMatch(
        key=_from_hex(key_hex) if key_hex is not None else _encoded(key),
        value_holds=_encoded(value),
        headers=tuple(_header(each) for each in headers),
    )
    if match == RecordMatch():
        raise BadOption("search for what?", hint="give --key, --key-hex, --value or --header; offsite cat shows all")
    return match


def _header(text: str) -> tuple[str, bytes | None]:
    name, separator, value = text.partition("=")
    return name, _encoded(value) if separator else None


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")  # as it came from the command line


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise BadOption(
            f"--key-hex {text!r} is not in hex", hint="write two digits for each byte, as 00ff12"
        ) from error
