"""The options for reading and restoring, as written by a person: options of commands, and keywords of Python.

Declared and parsed here for the command line and for Python alike. Every command imports the declaration: parsers are
imported only where they parse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

from offsite.model.errors import BadOption
from offsite.model.options import (
    CutChoice,
    CutText,
    Isolation,
    IsolationText,
    Keyless,
    KeylessText,
    OffsetsMode,
    OffsetsText,
    Option,
    RetentionMode,
    RetentionText,
    SchemaIdsChoice,
    SchemaIdsText,
    parse_choice,
    with_defaults,
)
from offsite.model.untrusted.text import NotUtf8, decode_text

if TYPE_CHECKING:
    from offsite.engine.rate_limits import RateLimits
    from offsite.points.restore_point import PointRequest
    from offsite.restore.request import RestoreRequest

BATCH_BYTES_MIN = 16_000
"""A broker takes about as long over a batch as over its bytes: smaller batches make a restore far slower."""
BATCH_BYTES_MAX = 1_000_000
"""The brokers' default limit (`message.max.bytes`); a worker holds up to a hundred batches."""
_CONTRADICTIONS = (
    ("commit", "committed_at"),
    *(("checkpoint", other) for other in ("commit", "committed_at", "offsets_file", "at", "before")),
    *(("offsets_file", other) for other in ("at", "before")),
)
"""A checkpoint and an offsets file are whole cuts; dates and single offsets take a part of a commit."""


class PointWords(TypedDict, total=False):
    """Options for a part of a backup, and a restore point. An option left out, or None, has the command's default.

    `topics`, `exclude`: names, globs, `regex:…`. `partitions`: `orders:0,2-5`. `before`:
    `topic=…,partition=…,offset=…`. `incarnation`: `orders=1`, `orders=oldest`, or `orders=` and the beginning of a
    topic id. Times: ISO 8601, or `2h-ago`.
    """

    topics: Annotated[Sequence[str] | None, Option("Topics to restore [default: all of the backup].")]
    exclude: Annotated[Sequence[str] | None, Option("Topics to leave out, same syntax as --topics.")]
    partitions: Annotated[Sequence[str] | None, Option("orders:0,2-5: of that topic, only these partitions.")]
    commit: Annotated[
        int | None,
        Option("Restore point: a commit number [default: the newest; of a restore, the newest with a consistent cut]."),
    ]
    committed_at: Annotated[str | None, Option("Restore point: the newest commit at or before this time.")]
    checkpoint: Annotated[int | None, Option("Restore point: a checkpoint number.")]
    at: Annotated[
        str | None,
        Option("Of the restore point, only records with a timestamp at or before this time."),
    ]
    offsets_file: Annotated[
        Path | None,
        Option("Of the restore point, each partition up to its offset in this file of topic,partition,offset lines."),
    ]
    before: Annotated[
        Sequence[str] | None, Option("topic=…,partition=…,offset=…: of that partition, only records below that offset.")
    ]
    incarnation: Annotated[
        Sequence[str] | None,
        Option(
            "orders=1, orders=oldest, or orders= and how its topic id begins: of a topic that was deleted and "
            "created again, this incarnation [default: the one of --at, else the newest]."
        ),
    ]
    isolation: Annotated[
        IsolationText, Option("Whether to include records of aborted transactions.", Isolation.DEFAULT)
    ]
    accept_rollback: Annotated[
        bool,
        Option(
            "Continue even if this machine has seen a newer state of the backup: its store was set back.", default=False
        ),
    ]
    as_of_head: Annotated[
        int | None,
        Option(
            "Read the backup as it was after this commit, without all later commits. Use it if a commit that is not "
            "yours drops restore points or has wrong contents."
        ),
    ]


class RestoreWords(PointWords, total=False):
    """Options of a restore: `PointWords`, and options for the target. `rename`: `old=new`. `repartition`: `orders=12`
    or `12`. `batch_bytes`, `write_limit`: `64kB`, `50MB`. `metadata`: `all`, `none`, `acls`, `quotas`, `groups`,
    `brokers`. `groups`: `all`, `none`, or patterns."""

    rename: Annotated[
        Sequence[str] | None,
        Option("old=new, 'orders-*=restored-*' or 'regex:^(.+)-v1$=\\1': restore under other names."),
    ]
    repartition: Annotated[
        Sequence[str] | None,
        Option("orders=12, or 12: restore into that many partitions, by key; order is kept for each key."),
    ]
    keyless: Annotated[
        KeylessText,
        Option(
            "How to distribute records without a key in a repartitioned topic: in-turn loses their order.",
            Keyless.DEFAULT,
        ),
    ]
    batch_bytes: Annotated[
        str | None,
        Option(
            "Size of the new batches of a repartitioned topic, before compression: 16kB to 1MB. All other topics keep "
            "the batches of the source, also topics that already have this partition count.",
            shown_default="256KiB",
        ),
    ]
    write_limit: Annotated[
        str | None,
        Option(
            "Maximum bytes per second written into the cluster, all workers together: 50MB, 1.5MiB. The cluster's own "
            "quotas also apply.",
            shown_default="no limit",
        ),
    ]
    offsets: Annotated[
        OffsetsText,
        Option(
            "preserve: every record at its old offset, transactions replayed. translate: gap-free from the target's "
            "end, with a stored map from old to new offsets. auto: for each topic preserve, if that is possible "
            "and fast enough, else translate.",
            OffsetsMode.DEFAULT,
        ),
    ]
    cut: Annotated[
        CutText,
        Option(
            "consistent: without transactions that were incomplete in the commit, and without records that depend on "
            "them; groups are set to match. as-copied: each partition as far as it was copied. auto: consistent, "
            "where the commit has such a cut and no option says where else to stop.",
            CutChoice.DEFAULT,
        ),
    ]
    metadata: Annotated[
        str,
        Option(
            "Which cluster settings to set at the end: all, none, acls, quotas, groups, brokers. "
            "SCRAM users are only listed.",
            "none",
        ),
    ]
    retention: Annotated[
        RetentionText,
        Option(
            "A retention setting that would delete restored records at once: hold = a created topic stays without the "
            "setting until you set it (the result says how), an existing topic is refused; override = the setting is "
            "set, or set back, at the end.",
            RetentionMode.DEFAULT,
        ),
    ]
    groups: Annotated[
        Sequence[str] | None,
        Option("Consumer groups to set at the end: all, none, or patterns [default: none; see: offsite groups]."),
    ]
    schema_ids: Annotated[
        SchemaIdsText,
        Option(
            "Schema ids in keys and values, where the registry of --registry gives them another meaning: keep = the "
            "schemas are registered there under their ids; rewrite = they are registered under other ids, and the ids "
            "in records are changed; leave = neither. auto: the first of these that is possible, if a registry is "
            "named.",
            SchemaIdsChoice.DEFAULT,
        ),
    ]
    resume: Annotated[
        str | None,
        Option(
            "Continue this unfinished restore of the same request, begun by another machine: its record counts as "
            "true. A restore that this machine began continues without this option."
        ),
    ]
    records: Annotated[
        str | None,
        Option(
            "Where the restore keeps its record, lease and maps, for a repository that cannot be written: a folder "
            "or a URL, which Spark workers must reach. All later commands of the restore need the same option; "
            "retention and collection of the backup do not see the restore [default: with the backup]."
        ),
    ]


def parse_point(options: PointWords) -> PointRequest:
    """Raises `BadOption` for unreadable or contradictory options."""
    from offsite.log.offset_vector import parse_before, parse_offsets
    from offsite.model.selection import parse_selection
    from offsite.model.topic_choices import parse_incarnations, parse_partitions
    from offsite.points.restore_point import PointRequest

    words = with_defaults(PointWords, options)
    _check_point(words)
    partitions = parse_partitions(words["partitions"] or ())
    offsets_file = words["offsets_file"]
    return PointRequest(
        selection=parse_selection(words["topics"] or [*partitions.chosen] or ["*"], words["exclude"] or ()),
        partitions=partitions,
        commit=words["commit"],
        committed_at=words["committed_at"],
        checkpoint=words["checkpoint"],
        at=words["at"],
        ends=parse_offsets(_text(offsets_file)) if offsets_file else {},
        before=parse_before(words["before"] or ()),
        incarnations=parse_incarnations(words["incarnation"] or ()),
        isolation=parse_choice(Isolation, words["isolation"]),
        accept_rollback=words["accept_rollback"],
        as_of_head=words["as_of_head"],
    )


def parse_restore(options: RestoreWords) -> RestoreRequest:
    """Raises `BadOption` for unreadable or contradictory options."""
    from offsite.model.selection import NONE, parse_groups
    from offsite.model.topic_choices import parse_partition_counts, parse_renames
    from offsite.restore.cluster_settings import parse_metadata
    from offsite.restore.request import RestoreRequest

    words = with_defaults(RestoreWords, options)
    parse_restore_limits(options)  # report bad limits in a plan already
    offsets = parse_choice(OffsetsMode, words["offsets"])
    if offsets == OffsetsMode.PRESERVE and parse_choice(Isolation, words["isolation"]) == Isolation.READ_UNCOMMITTED:
        raise BadOption(
            "--offsets preserve replays transactions: aborted records stay aborted",
            hint="omit --isolation; consumers of both isolation levels see the same records as at the source",
        )
    point = parse_point(options)
    in_turn = parse_choice(Keyless, words["keyless"]) == Keyless.IN_TURN
    return RestoreRequest(
        **{field.name: getattr(point, field.name) for field in fields(point)},
        renames=parse_renames(words["rename"] or ()),
        repartition=parse_partition_counts(
            words["repartition"] or (),
            keyless_in_turn=in_turn,
            batch_bytes=parse_batch_bytes(words["batch_bytes"]),
        ),
        offsets=offsets,
        cut=parse_choice(CutChoice, words["cut"]),
        metadata=parse_metadata(words["metadata"]),
        retention=parse_choice(RetentionMode, words["retention"]),
        groups=parse_groups(words["groups"] or [NONE]),
        resume=words["resume"],
        records=words["records"],
        schema_ids=parse_choice(SchemaIdsChoice, words["schema_ids"]),
    )


def parse_restore_limits(options: RestoreWords) -> RateLimits:
    """The rate limits for the runner of a restore, from its options. Raises `BadOption` for unreadable options."""
    from offsite.engine.rate_limits import RateLimits
    from offsite.model.units import parse_rate

    text = options.get("write_limit")
    return RateLimits(write_bytes_per_s=None if text is None else parse_rate(text, "--write-limit"))


def parse_batch_bytes(text: str | None, option: str = "--batch-bytes") -> int | None:
    """The size of new batches; None where it is not given. Raises `BadOption`, which names `option`."""
    from offsite.model.units import parse_size

    if text is None:
        return None
    size_bytes = parse_size(text, option)
    if not BATCH_BYTES_MIN <= size_bytes <= BATCH_BYTES_MAX:
        raise BadOption(f"{option}: {text[:100]!r} is not between 16kB and 1MB", hint=f"as in {option} 64kB")
    return size_bytes


def _check_point(words: Mapping[str, object]) -> None:
    for first, second in _CONTRADICTIONS:
        if all(words.get(name) not in (None, [], ()) for name in (first, second)):
            raise BadOption(
                f"{_option(first)} and {_option(second)} both set the end of the restore", hint="give one of them"
            )


def _option(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def _text(path: Path) -> str:
    try:
        return decode_text(path.read_bytes())
    except (OSError, NotUtf8) as error:
        raise BadOption(f"{path} cannot be read: {error}", hint="name a text file of topic,partition,offset") from error
