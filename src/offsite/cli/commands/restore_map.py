"""`offsite restore map`: where a record of the source is on the target of a restore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options.common import BackupName, Output, Repo
from offsite.cli.output import OutputFormat, emit
from offsite.cli.wiring import open_repository
from offsite.model.errors import BadOption
from offsite.model.untrusted.bounds import MAX_OFFSET, MAX_PARTITIONS
from offsite.model.untrusted.whole_number import whole_number

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.log.range import TopicPartition
    from offsite.services.groups.restored_offsets import OffsetAnswer

_WORDS = {
    "exact": "that record",
    "gap": "the next record there is",
    "end": "the end",
    "below": "the first record: the offset lies before the restored range",
    "above": "the end: the offset lies beyond the restored range",
}


def map_(
    partition: Annotated[str, typer.Argument(metavar="TOPIC/PARTITION", help="A partition of the source.")],
    offset: Annotated[int, typer.Argument(min=0, max=MAX_OFFSET, help="An offset of the source.")],
    repo: Repo,
    backup: BackupName,
    restore: Annotated[str, typer.Option("--restore", help="Id that restore run printed.")],
    output: Output = OutputFormat.TABLE,
) -> None:
    """Say which offset of the target stands for one of the source. Starts no JVM."""
    from offsite.services.groups.restored_offsets import map_offset

    known = open_repository(repo).backup(backup)
    emit(map_offset(known, restore, _partition(partition), offset), output=output, render=_render)


def _partition(text: str) -> TopicPartition:
    from offsite.log.range import TopicPartition

    topic, _, number = text.rpartition("/")
    partition = whole_number(number, most=MAX_PARTITIONS - 1)
    if not topic or partition is None:
        raise BadOption(f"{text[:100]!r} is not a partition", hint="write it as orders/0")
    return TopicPartition(topic=topic, partition=partition)


def _render(console: Console, answer: OffsetAnswer) -> None:
    console.print(
        f"{answer.source_topic}/{answer.partition} offset {answer.source_offset} is offset {answer.target_offset} of "
        f"{answer.target_topic}/{answer.partition}: {_WORDS[answer.match]}"
    )
