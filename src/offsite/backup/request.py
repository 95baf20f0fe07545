"""The request for a run of a backup."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.options import CompressionChoice, MissingTopics
from offsite.model.selection import ALL_GROUPS, GroupPatterns, TopicSelection


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRequest:
    """What to back up. `selection` and `schemas_topic` None: as in the backup's first run (`_schemas` in a new backup);
    an empty `schemas_topic` takes none along. `group_history`: back up the log of groups as well. `expect_deletes`:
    topics that applications empty on purpose; None: none. `reselects`: `selection` may differ from the first run;
    topics that the new selection excludes stay as they are and get no new records. `declared_by`: the uid of the
    declared resource of the backup; empty: none."""

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
