"""`offsite cat`: records of a backup, in order, decoded for people or as they are."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options.common import Output
from offsite.cli.options.option_group import takes
from offsite.cli.options.record import RecordOptions, check_limit, note_incarnations, record_point
from offsite.cli.output import OutputFormat, emit_bytes, emit_each
from offsite.cli.wiring import open_repository
from offsite.model.errors import BadOption

if TYPE_CHECKING:
    from offsite.services.records.find import RecordsPlan

Where = Annotated[str, typer.Argument(metavar="TOPIC[/PARTITION]", help="What to show, as orders or orders/3.")]
Limit = Annotated[int | None, typer.Option("--limit", "-n", help="Show no more than this many records.")]
Raw = Annotated[bool, typer.Option("--raw", help="Only the values, as they are, each with a line break.")]


@takes(RecordOptions)
def cat(
    options: RecordOptions,
    where: Where,
    limit: Limit = None,
    raw: Raw = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show records of a backup, partition by partition in the order of offsets.

    Values are decoded where that can be done: JSON, and Avro by the schemas that the backup holds of a schema registry.
    Bytes that are no text are shown in hex. -o jsonl prints a record a line as it is read, -o json one document.
    """
    from offsite.cli.views.record_line import record_line
    from offsite.services.records.find import cat_records, raw_values

    plan = _plan(options, where, limit)
    note_incarnations(plan)
    if raw:
        _check_not_a_terminal()
        emit_bytes(raw_values(plan), after_each=b"\n")
    else:
        emit_each(cat_records(plan), name="records", output=output, line=record_line)


def _plan(options: RecordOptions, where: str, limit: int | None) -> RecordsPlan:
    from offsite.services.records.find import RecordsRequest, plan_records

    check_limit(limit)
    topic, _, partition = where.partition("/")
    point = record_point(options, topics=[topic], partitions=[f"{topic}:{partition}"] if partition else None)
    request = RecordsRequest(point=point, start=options.start, end=options.end, limit=limit)
    return plan_records(open_repository(options.repo).backup(options.backup), request)


def _check_not_a_terminal() -> None:
    if sys.stdout.isatty():
        raise BadOption("--raw to a terminal could change how it works", hint="send it to a file or a pipe")
