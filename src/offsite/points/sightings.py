"""When a backup saw every incarnation of a topic. Evidence are the entries of commits, never their omissions."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

from offsite.repository.commit import Commit, PartitionId, TopicIncarnation
from offsite.repository.commit_log import CommitLog

UNKNOWN_MS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """The first and the last commit that listed the incarnation's shape or moved a position of the incarnation, with
    times.

    `alive_ms`: the incarnation surely lived then, because a later run read new records; -1: no evidence.
    """

    first_commit: int
    first_ms: int
    last_commit: int
    last_ms: int
    alive_ms: int = UNKNOWN_MS


def read_sightings(log: CommitLog, topics: Container[str], *, upto: int) -> Mapping[TopicIncarnation, Sighting]:
    """The sightings of every incarnation of `topics`. Reads all commits to `upto`: call only for topics with several
    incarnations. Raises `DamagedCommit`."""
    sightings: dict[TopicIncarnation, Sighting] = {}
    ends: dict[PartitionId, int] = {}
    before_ms = UNKNOWN_MS
    for stored in log.read(after=0, upto=upto):
        commit = stored.commit
        grown = {p.partition_id.incarnation for p in commit.changes.positions if p.end > ends.get(p.partition_id, 0)}
        ends |= {p.partition_id: p.end for p in commit.changes.positions}
        for incarnation in sorted(_seen_incarnations(commit)):
            if incarnation.topic in topics:
                sightings[incarnation] = _extend_sighting(
                    sightings.get(incarnation), commit, before_ms if incarnation in grown else UNKNOWN_MS
                )
        before_ms = commit.committed_at_ms
    return sightings


def _seen_incarnations(commit: Commit) -> set[TopicIncarnation]:
    """Segments are no evidence: roll-ups may rewrite segments long after their topic is gone. A deletion is no evidence
    either."""
    changes = commit.changes
    listed = {shape.incarnation for shape in changes.topics if not shape.is_deleted}
    return {p.partition_id.incarnation for p in changes.positions} | listed


def _extend_sighting(sighting: Sighting | None, commit: Commit, alive_ms: int) -> Sighting:
    now_ms = commit.committed_at_ms
    if sighting is None:
        return Sighting(
            first_commit=commit.seq, first_ms=now_ms, last_commit=commit.seq, last_ms=now_ms, alive_ms=alive_ms
        )
    return replace(sighting, last_commit=commit.seq, last_ms=now_ms, alive_ms=max(sighting.alive_ms, alive_ms))
