"""The result of a restore, as people and scripts read it, and what it may claim.

It must never say that something was verified where nothing was, nor that a backup is empty where the command left out
what it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from offsite.copy.incarnations import KnownIncarnation
from offsite.copy.point_in_time import PointInTime
from offsite.copy.restore.plan import RestorePlan
from offsite.model.time import format_time
from offsite.repository.restores.record import RestoreRecord
from offsite.services.compare.result import Finding, Uncompared
from offsite.services.cut_report import ConsistencyReport
from offsite.services.groups.run import GroupsApplied
from offsite.services.hole_report import HoleReport
from offsite.services.restore.cluster_settings import AppliedMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedRecords:
    """Records that the backup holds at the commit, and that `options` left out, together where they are several."""

    options: tuple[str, ...]
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredTopic:
    """Result for one topic. `records` are in the target; `invisible_records` were left out as aborted or undecided at
    the restore point, or, with `same_offsets`, are there and aborted."""

    source: str
    partitions: int
    same_offsets: bool
    records: int
    bytes: int
    invisible_records: int
    undecided_transactions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """Result of a restore. `topics` by target name; `skipped` lists (topic, reason); `held_back` lists (topic, setting,
    value): settings of the source that were not set, because they would delete restored records at once; `left_out`
    lists (topic, setting, reason) of those that the target cannot have. `verified`: what was written was read back and
    is what the backup holds; None when it was not read (then `compared_records` is None too), when there was nothing to
    compare, or when partitions could not be read (`uncompared`). `findings` has the first difference of each partition.
    `lacking` is what the backup itself does not have of what came back. `groups` is None when none were asked for.
    `incarnations`: of topics that were deleted and made anew, which was taken, and the others. Where no record came
    back, `problem` says why, and `excluded` what the backup holds all the same, by the options that left it out.
    `newer_commit`: that which the request means by now, where it is a later one than `commit`; None: it is not, or that
    could not be read. `consistency`: how far the topics belong together, and what was left out for it. `notes` are
    sentences on what else a person should know, as of settings that somebody changed meanwhile. `expected_deletions`:
    the number of holes that are no loss, and are not among `holes`."""

    restore: str
    backup: str
    commit: int
    offsets: str
    isolation: str
    resumed: bool
    records: int
    bytes: int
    topics: Mapping[str, RestoredTopic]
    skipped: tuple[tuple[str, str], ...]
    held_back: tuple[tuple[str, str, str], ...]
    left_out: tuple[tuple[str, str, str], ...]
    holes: int
    verified: bool | None
    findings: tuple[Finding, ...]
    metadata: AppliedMetadata = field(default_factory=AppliedMetadata)
    groups: GroupsApplied | None = None
    compared_records: int | None = None
    uncompared: tuple[Uncompared, ...] = ()
    lacking: tuple[HoleReport, ...] = ()
    incarnations: tuple[KnownIncarnation, ...] = ()
    problem: str = ""
    excluded: tuple[ExcludedRecords, ...] = ()
    notes: tuple[str, ...] = ()
    newer_commit: int | None = None
    consistency: ConsistencyReport | None = None
    expected_deletions: int = 0


_NAMED_MAX = 12
"""Topics in one sentence."""
_TEXT_MAX = 120
"""Characters of an option's value in one sentence."""
_CUTS = (("checkpoint", "--checkpoint"), ("ends", "--offsets-file"), ("before", "--before"))
"""Fields of a request that end partitions earlier than the commit does, and their options."""


def excluded_records(
    point: PointInTime, plan: RestorePlan, record: RestoreRecord, *, invisible_records: int
) -> tuple[ExcludedRecords, ...]:
    """The records of the plan's topics that the backup holds although nothing came back but `invisible_records`, which
    were aborted or undecided: by the options that left them out."""
    incarnations = {topic.source.incarnation for topic in plan.topics}
    held = {
        partition: sum(segment.records for segment in segments)
        for partition, segments in point.commit.segments.items()
        if partition.incarnation in incarnations
    }
    chosen = {each: n for each, n in held.items() if point.partitions.includes(each.topic, each.partition)}
    is_cut = any(point.state.positions[each].end < point.commit.positions[each].end for each in chosen)
    found = (
        ExcludedRecords(
            options=(_option("--partitions", str(point.partitions)),), records=sum(held.values()) - sum(chosen.values())
        ),
        ExcludedRecords(
            options=tuple(_point_options(point, dict(record.request), is_cut=is_cut)),
            records=sum(chosen.values()) - invisible_records,
        ),
    )
    return tuple(each for each in found if each.options and each.records > 0)


def nothing_restored(result: RestoreResult) -> str:
    """The sentence for a restore without records; empty for any other."""
    if result.records:
        return ""
    topics = _topics(result)
    aborted = sum(topic.invisible_records for topic in result.topics.values())
    is_left_out = result.consistency is not None and result.consistency.left_out_count > 0
    kinds = "aborted, undecided or left out by the cut" if is_left_out else "aborted or undecided"
    but = f", but {aborted:,} {kinds} ones" if aborted else ""
    if not result.excluded:
        return f"nothing was restored: at commit {result.commit} the backup holds no records of {topics}{but}"
    parts = [f"{' and '.join(each.options)} left out {each.records:,}" for each in result.excluded]
    rest = f"; the other {aborted:,} are {kinds}" if aborted else ""
    held = aborted + sum(each.records for each in result.excluded)
    return (
        f"nothing was restored: of the {held:,} records of {topics} that the backup holds at commit {result.commit}, "
        f"{', '.join(parts)}{rest}"
    )


def _point_options(point: PointInTime, request: dict[str, str], *, is_cut: bool) -> Iterator[str]:
    if point.until_ms is not None:
        yield f"--at {format_time(point.until_ms)}"
    if is_cut and point.cut.used is not None:
        yield "--cut consistent"
    for name, option in _CUTS if is_cut else ():
        if name in request:
            yield option if name == "ends" else _option(option, request[name])


def _option(name: str, value: str) -> str:
    return f"{name} {value if len(value) <= _TEXT_MAX else f'{value[:_TEXT_MAX]}…'}"


def _topics(result: RestoreResult) -> str:
    taken = {each.topic: each for each in result.incarnations if each.taken}
    names = [
        f"{topic.source} (incarnation {taken[topic.source].number})" if topic.source in taken else topic.source
        for topic in sorted(result.topics.values(), key=lambda each: each.source)
    ]
    more = f" and {len(names) - _NAMED_MAX:,} more topics" if len(names) > _NAMED_MAX else ""
    return f"{', '.join(names[:_NAMED_MAX])}{more}"
