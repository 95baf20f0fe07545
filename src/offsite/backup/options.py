"""The request for a run of a backup, and the options of `offsite backup`, which are also keywords of the Python API.

Declared and read here for the command line and for Python alike. Parsers are imported where they are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypedDict

from offsite.model.options import (
    CompressionChoice,
    CompressionText,
    MissingTopics,
    MissingTopicsText,
    Option,
    parse_choice,
    with_defaults,
)
from offsite.model.selection import ALL_GROUPS, GroupPatterns, TopicSelection, parse_groups, parse_selection

if TYPE_CHECKING:
    from pathlib import Path

    from offsite.engine.rate_limits import RateLimits
    from offsite.schemas.registry_client import RegistryAddress


class BackupWords(TypedDict, total=False):
    """Options of a backup by name. An option that is absent or None has the command's default.

    `topics`, `exclude`, `groups`: names, globs, `regex:…`. `internal`: patterns match Kafka's own topics too.
    """

    topics: Annotated[
        Sequence[str] | None,
        Option("Topics: names, globs, regex:PATTERN, comma-separated [default: those of the backup's first run]."),
    ]
    exclude: Annotated[Sequence[str] | None, Option("Topics to leave out, same syntax as --topics.")]
    internal: Annotated[bool, Option("Patterns also match Kafka's internal topics.", default=False)]
    missing_topics: Annotated[
        MissingTopicsText,
        Option("What to do when a topic given by its full name does not exist.", MissingTopics.DEFAULT),
    ]
    compression: Annotated[
        CompressionText,
        Option(
            "How objects are stored; auto compresses data that producers did not compress.", CompressionChoice.DEFAULT
        ),
    ]
    schemas_topic: Annotated[
        str | None,
        Option(
            "The topic of the schema registry. It is backed up if it exists; '' for none. The first run decides.",
            shown_default="that of the backup's first run, _schemas in a new one",
        ),
    ]
    groups: Annotated[
        Sequence[str] | None,
        Option("Consumer groups to back up with their offsets: all, none, or patterns [default: all]."),
    ]
    group_history: Annotated[
        bool,
        Option(
            "Back up the brokers' own log of groups too: the offsets of groups are then known for any time. The "
            "first run decides.",
            default=False,
        ),
    ]
    expect_deletes: Annotated[
        Sequence[str] | None,
        Option(
            "Topics whose records are deleted on purpose, same syntax as --topics: their holes do not count as loss. "
            "Not needed if all groups of the topic have committed offsets beyond the deleted records."
        ),
    ]
    read_limit: Annotated[
        str | None,
        Option(
            "Maximum bytes per second fetched from brokers, all workers together: 50MB, 1.5MiB. The cluster's own "
            "quotas also apply.",
            shown_default="no limit",
        ),
    ]
    write_limit: Annotated[
        str | None,
        Option(
            "Maximum bytes per second written into the repository, all workers together.",
            shown_default="no limit",
        ),
    ]
    executor_read_limit: Annotated[
        str | None,
        Option(
            "Maximum bytes per second fetched from brokers by each executor of a Spark cluster.",
            shown_default="no limit",
        ),
    ]
    executor_write_limit: Annotated[
        str | None,
        Option(
            "Maximum bytes per second written into the repository by each executor of a Spark cluster.",
            shown_default="no limit",
        ),
    ]


def parse_backup(
    backup: str, options: BackupWords, *, registry: str | None = None, registry_config: Path | None = None
) -> BackupRequest:
    """Build the request for backup `backup` from the options. `registry`: as in the request; `registry_config`: the
    file with the login there. Raises `BadOption` for an unreadable option, `BadRegistry` for such a file."""
    words = with_defaults(BackupWords, options)
    access = None
    if registry_config is not None:
        from offsite.schemas.registry_settings import read_registry_config

        access = read_registry_config(registry_config)
    topics, exclude = words["topics"], words["exclude"] or ()
    return BackupRequest(
        backup=backup,
        selection=parse_selection(topics, exclude, internal=words["internal"]) if topics else None,
        missing_topics=parse_choice(MissingTopics, words["missing_topics"]),
        schemas_topic=words["schemas_topic"],
        groups=parse_groups(words["groups"] or ()),
        group_history=words["group_history"],
        compression=parse_choice(CompressionChoice, words["compression"]),
        expect_deletes=parse_selection(words["expect_deletes"], internal=True) if words["expect_deletes"] else None,
        registry=registry,
        registry_access=access,
    )


def parse_limits(options: BackupWords) -> RateLimits:
    """Build the rate limits for the runner of a backup from the options. Raises `BadOption` for an unreadable
    option."""
    from offsite.engine.rate_limits import RateLimits
    from offsite.model.units import parse_rate

    def rate(text: str | None, option: str) -> int | None:
        return None if text is None else parse_rate(text, option)

    return RateLimits(
        read_bytes_per_s=rate(options.get("read_limit"), "--read-limit"),
        write_bytes_per_s=rate(options.get("write_limit"), "--write-limit"),
        executor_read_bytes_per_s=rate(options.get("executor_read_limit"), "--executor-read-limit"),
        executor_write_bytes_per_s=rate(options.get("executor_write_limit"), "--executor-write-limit"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRequest:
    """What to back up. `selection` and `schemas_topic` None: as in the backup's first run (`_schemas` in a new backup);
    an empty `schemas_topic` takes none along. `group_history`: back up the log of groups as well. `expect_deletes`:
    topics that applications empty on purpose; None: none. `reselects`: `selection` may differ from the first run;
    topics that the new selection excludes stay as they are and get no new records. `declared_by`: the uid of the
    declared resource of the backup; empty: none. `registry`: the address of the schema registry; None: that of the
    backup's first run; empty: none. `registry_access`: the login there, None without one."""

    backup: str
    selection: TopicSelection | None
    missing_topics: MissingTopics = MissingTopics.DEFAULT
    compression: CompressionChoice = CompressionChoice.DEFAULT
    schemas_topic: str | None = None
    groups: GroupPatterns = ALL_GROUPS
    group_history: bool = False
    expect_deletes: TopicSelection | None = None
    reselects: bool = False
    declared_by: str = ""
    registry: str | None = None
    registry_access: RegistryAddress | None = None
