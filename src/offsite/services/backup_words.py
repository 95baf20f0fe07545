"""What to back up, as a person writes it: a field for each option of `offsite backup`.

Read here for the command line and for Python alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from offsite.model.choices import CompressionChoice, CompressionText, MissingTopics, MissingTopicsText, chosen
from offsite.model.group_patterns import parse_groups
from offsite.model.selection import parse_selection
from offsite.services.backup import BackupRequest


class BackupWords(TypedDict, total=False):
    """Whatever is left out or None has the command's default.

    `topics`, `exclude`, `groups`: names, globs, `regex:…`. `internal`: patterns match Kafka's own topics too.
    """

    topics: Sequence[str] | None
    exclude: Sequence[str] | None
    internal: bool
    missing_topics: MissingTopicsText
    compression: CompressionText
    schemas_topic: str | None
    groups: Sequence[str] | None
    group_history: bool


def parse_backup(backup: str, words: BackupWords) -> BackupRequest:
    """Raises `BadOption` for what cannot be read."""
    topics, exclude = words.get("topics"), words.get("exclude") or ()
    return BackupRequest(
        backup=backup,
        selection=parse_selection(topics, exclude, internal=words.get("internal", False)) if topics else None,
        missing_topics=chosen(MissingTopics, words.get("missing_topics", MissingTopics.DEFAULT)),
        schemas_topic=words.get("schemas_topic"),
        groups=parse_groups(words.get("groups") or ()),
        group_history=words.get("group_history", False),
        compression=chosen(CompressionChoice, words.get("compression", CompressionChoice.DEFAULT)),
    )
