"""What to restore, as a person writes it: a field for each option of `offsite restore`.

Read here for the command line and for Python alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from offsite.log.offset_vector import parse_before, parse_offsets
from offsite.model.choices import (
    Isolation,
    IsolationText,
    Keyless,
    KeylessText,
    OffsetsMode,
    OffsetsText,
    RetentionMode,
    RetentionText,
    chosen,
)
from offsite.model.errors import BadOption
from offsite.model.group_patterns import NONE, parse_groups
from offsite.model.incarnation_choice import parse_incarnations
from offsite.model.partition_counts import parse_partition_counts
from offsite.model.partition_selection import parse_partitions
from offsite.model.rename import parse_renames
from offsite.model.selection import parse_selection
from offsite.services.metadata_restore import parse_metadata
from offsite.services.restore_request import RestoreRequest


class PointWords(TypedDict, total=False):
    """What of a backup, and as of when. Whatever is left out or None has the command's default.

    `topics`, `exclude`: names, globs, `regex:…`. `partitions`: `orders:0,2-5`. `before`:
    `topic=…,partition=…,offset=…`. `incarnation`: `orders=1`, `orders=oldest`, or `orders=` and how its topic id
    begins. Times: ISO 8601, or `2h-ago`.
    """

    topics: Sequence[str] | None
    exclude: Sequence[str] | None
    partitions: Sequence[str] | None
    commit: int | None
    committed_at: str | None
    checkpoint: int | None
    at: str | None
    offsets_file: Path | None
    before: Sequence[str] | None
    incarnation: Sequence[str] | None
    isolation: IsolationText


class RestoreWords(PointWords, total=False):
    """`PointWords`, and how it comes back: `rename`: `old=new`. `repartition`: `orders=12` or `12`. `metadata`: `all`,
    `none`, `acls`, `quotas`. `groups`: `all`, `none`, or patterns.
    """

    rename: Sequence[str] | None
    repartition: Sequence[str] | None
    keyless: KeylessText
    offsets: OffsetsText
    metadata: str
    retention: RetentionText
    groups: Sequence[str] | None


_CONTRADICTIONS = (
    ("commit", "committed_at"),
    *(("checkpoint", other) for other in ("commit", "committed_at", "offsets_file", "at", "before")),
    *(("offsets_file", other) for other in ("at", "before")),
)
"""A checkpoint and an offsets file are whole cuts; dates and single offsets take a part of a commit."""


def parse_restore(words: RestoreWords) -> RestoreRequest:
    """Raises `BadOption` for what cannot be read or contradicts itself."""
    isolation = chosen(Isolation, words.get("isolation", Isolation.DEFAULT))
    offsets = chosen(OffsetsMode, words.get("offsets", OffsetsMode.DEFAULT))
    keyless = chosen(Keyless, words.get("keyless", Keyless.DEFAULT))
    if (offsets, isolation) == (OffsetsMode.PRESERVE, Isolation.READ_UNCOMMITTED):
        raise BadOption(
            "--offsets preserve replays transactions: aborted records stay aborted",
            hint="leave --isolation out; consumers of both isolation levels see what they saw at the source",
        )
    _check_point(words)
    partitions = parse_partitions(words.get("partitions") or ())
    offsets_file = words.get("offsets_file")
    return RestoreRequest(
        selection=parse_selection(words.get("topics") or [*partitions.chosen] or ["*"], words.get("exclude") or ()),
        partitions=partitions,
        renames=parse_renames(words.get("rename") or ()),
        repartition=parse_partition_counts(words.get("repartition") or (), keyless_in_turn=keyless == Keyless.IN_TURN),
        commit=words.get("commit"),
        committed_at=words.get("committed_at"),
        checkpoint=words.get("checkpoint"),
        at=words.get("at"),
        ends=parse_offsets(_text(offsets_file)) if offsets_file else {},
        before=parse_before(words.get("before") or ()),
        incarnations=parse_incarnations(words.get("incarnation") or ()),
        isolation=isolation,
        offsets=offsets,
        metadata=parse_metadata(words.get("metadata", "none")),
        retention=chosen(RetentionMode, words.get("retention", RetentionMode.DEFAULT)),
        groups=parse_groups(words.get("groups") or [NONE]),
    )


def _check_point(words: Mapping[str, object]) -> None:
    for first, second in _CONTRADICTIONS:
        if all(words.get(each) not in (None, [], ()) for each in (first, second)):
            raise BadOption(f"{_option(first)} and {_option(second)} both say where to stop", hint="give one of them")


def _option(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(f"{path} cannot be read: {error}", hint="name a text file of topic,partition,offset") from error
