"""What a restore may claim, in words: never that something was verified where nothing was, nor that a backup is empty
where the command left out what it holds."""

from __future__ import annotations

from collections.abc import Iterator

from offsite.copy.point_in_time import PointInTime
from offsite.copy.restore.plan import RestorePlan
from offsite.model.time import format_time
from offsite.repository.restores.record import RestoreRecord
from offsite.services.restore.report.result import ExcludedRecords, RestoreResult

_NAMED_MAX = 12
"""Topics in one sentence."""
_TEXT_MAX = 120
"""Characters of an option's value in it."""
_CUTS = (("checkpoint", "--checkpoint"), ("ends", "--offsets-file"), ("before", "--before"))
"""Fields of a request that end partitions earlier than the commit does, and their options."""


def excluded_records(
    point: PointInTime, plan: RestorePlan, record: RestoreRecord, *, invisible_records: int
) -> tuple[ExcludedRecords, ...]:
    """Where nothing came back but `invisible_records`, that were aborted or undecided: what the backup holds of the
    plan's topics all the same, by the options that left it out."""
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
    but = f", but {aborted:,} aborted or undecided ones" if aborted else ""
    if not result.excluded:
        return f"nothing was restored: at commit {result.commit} the backup holds no records of {topics}{but}"
    parts = [f"{' and '.join(each.options)} left out {each.records:,}" for each in result.excluded]
    rest = f"; the other {aborted:,} are aborted or undecided" if aborted else ""
    held = aborted + sum(each.records for each in result.excluded)
    return (
        f"nothing was restored: of the {held:,} records of {topics} that the backup holds at commit {result.commit}, "
        f"{', '.join(parts)}{rest}"
    )


def _point_options(point: PointInTime, request: dict[str, str], *, is_cut: bool) -> Iterator[str]:
    if point.until_ms is not None:
        yield f"--at {format_time(point.until_ms)}"
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
