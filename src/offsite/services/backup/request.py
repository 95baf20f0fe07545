"""What a run is asked to back up."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.choices import CompressionChoice, MissingTopics
from offsite.model.selections.selection import ALL_GROUPS, GroupPatterns, TopicSelection


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRequest:
    """What to back up. `selection` and `schemas_topic` None: those of the backup's first run (`_schemas` in a new one);
    an empty `schemas_topic` takes none along. `group_history`: back up what groups are known by as well.
    `expect_deletes`: topics that applications empty by themselves; None: none. `reselects`: `selection` may be another
    one than that of the first run; what it leaves out stays as it is, and gets nothing new. `declared_by`: the uid of
    the declared resource that it is a backup of; empty: of none."""

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
