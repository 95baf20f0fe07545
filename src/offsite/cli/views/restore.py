"""Shows the plan and the result of a restore, for people.

Topics and partitions may be thousands: of items with a line each the first are shown, and the JSON output has all.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from offsite.cli.output import Line, Table, remark_lines
from offsite.cli.views.repository import (
    render_applied,
    render_consistency,
    render_gone,
    render_kinds,
    render_metadata_plan,
    render_share_positions,
    render_topic_diffs,
)
from offsite.cli.views.verify import render_lacking, render_open
from offsite.model.names import amount, named
from offsite.model.options import OffsetsMode, SchemaIdsWay
from offsite.model.selection import only_these
from offsite.model.units import format_duration, format_size

if TYPE_CHECKING:
    from offsite.points.incarnations import IncarnationSummary
    from offsite.points.point_in_time import CutReport
    from offsite.restore.groups_outlook import ForeseenGroup, GroupOutlook
    from offsite.restore.plan_report import OffsetsReport, PartitionOffsetsReport, RestorePlanReport, TopicPlanReport
    from offsite.restore.result import RestoredIds, RestoreResult


_CUTS_MAX = 20
"""Cut partitions shown: a cut through ten thousand is read in the JSON output."""

_GROUPS_MAX = 12
"""Groups shown that do not continue exactly at their offsets."""
_LEFT_MAX = 12
"""Topics and reasons shown, of fields that kept what may be an id of the source."""
_PARTITIONS_MAX = 12
"""Partitions shown for a topic; the JSON has all."""
_VERDICTS = {
    "goes on": ("continues where it was", "continue where they were"),
    "delivers again": ("delivers again what was in flight", "deliver again what was in flight"),
    "reads again": ("reads some records again", "read some records again"),
    "lost at the source": ("had already lost records at the source", "had already lost records at the source"),
    "no position": ("has no position in some partitions", "have no position in some partitions"),
    "in part": ("is set in part", "are set in part"),
    "cannot go on": ("CANNOT CONTINUE", "CANNOT CONTINUE"),
    "not set": ("will not be set", "will not be set"),
}
"""By the words of `GroupVerdict`: the effect on one group, and on several."""


def _render_cuts(cuts: Sequence[CutReport]) -> Iterator[Line]:
    """Show a line for each of the first partitions; nothing when all are taken whole."""
    for cut in cuts[:_CUTS_MAX]:
        end = f"up to offset {cut.end:,} of {cut.commit_end:,}, " if cut.end < cut.commit_end else ""
        yield (
            f"  cut: {cut.topic}/{cut.partition}: {end}segments: {cut.whole_segments} whole, {cut.edge_segments} in "
            f"part, {cut.left_out_segments} left out"
        )
    if len(cuts) > _CUTS_MAX:
        yield f"  cut: {amount(len(cuts) - _CUTS_MAX, 'more partition')} (all of them with -o json)"


def _render_incarnations(incarnations: Sequence[IncarnationSummary]) -> Iterator[Line]:
    """Show a line for each recreated topic."""
    from offsite.points.incarnations import incarnation_notes

    for line in incarnation_notes(incarnations):
        yield f"  {line}"


def _describe_mode(offsets: OffsetsReport) -> str:
    """Return the offset choice of the topic, for the plan's table."""
    if offsets.mode == OffsetsMode.TRANSLATE:
        return "new, with a map"
    return f"kept, +{format_duration(offsets.extra_s)}" if offsets.extra_s >= 1 else "kept"


def _render_offsets(report: RestorePlanReport) -> Iterator[Line]:
    """Show a line for each partition with kept offsets: fillers and replayed transactions."""
    for topic in report.topics:
        partitions = topic.offsets.partitions if topic.offsets.mode == OffsetsMode.PRESERVE else ()
        for partition in partitions[:_PARTITIONS_MAX]:
            yield f"  {topic.target}/{partition.partition}: {_describe(partition)}"
        if len(partitions) > _PARTITIONS_MAX:
            yield f"  {topic.target}: {amount(len(partitions) - _PARTITIONS_MAX, 'more partition')}, see -o json"


def _describe(partition: PartitionOffsetsReport) -> str:
    parts = {
        f"{amount(partition.head_offsets, 'offset')} used up before the log's start": partition.head_offsets,
        f"{amount(partition.outcomes, 'outcome')} of transactions replayed": partition.outcomes,
        f"{amount(partition.gap_offsets, 'offset')} in gaps filled with {partition.filler}": partition.gap_offsets,
    }
    took = f", about {format_duration(partition.extra_s)}" if partition.extra_s >= 1 else ""
    return ", ".join(text for text, count in parts.items() if count) + took


def render_restore_plan(report: RestorePlanReport) -> Iterator[Line]:
    table = Table("topic", "to", "partitions", "records", "size", "how", "offsets")
    for topic in report.topics:
        how = "create" if topic.create else "fill (exists, empty)"
        table.add_row(
            _source_name(topic),
            topic.target,
            str(topic.partitions),
            f"{topic.records:,}",
            format_size(topic.bytes),
            how,
            _describe_mode(topic.offsets),
        )
    yield table
    yield (
        f"restore {report.restore}: backup {report.backup} as of commit {report.commit} into cluster "
        f"{report.cluster_id}, offsets {report.offsets}, {report.isolation}"
        f"{', continues an unfinished run' if report.resumes else ''}"
    )
    yield from _render_newer(report)
    yield from render_consistency(report.consistency)
    yield from _render_incarnations(report.incarnations)
    yield from _render_cuts(report.cuts)
    if report.lacking:
        yield "  the backup itself lacks, and so will the restored topics:"
        yield from render_lacking(report.lacking)
    yield from _render_expected(report.expected_deletions)
    if report.groups is not None:
        yield from render_outlook(report.groups, backup=report.backup)
    yield from _render_offsets(report)
    yield from render_topic_diffs(report.topics)
    yield from render_metadata_plan(report.metadata)
    for skipped, reason in report.skipped:
        yield f"  skipped: {skipped}: {reason}"
    yield from remark_lines(report.notes)


def _render_expected(count: int) -> Iterator[Line]:
    if count:
        yield (
            f"  {amount(count, 'range was', 'ranges were')} deleted at the source on purpose, after all groups had "
            "read them: no loss"
        )


def render_outlook(outlook: GroupOutlook, *, backup: str) -> Iterator[Line]:
    """Show how many groups continue at their offsets, and the effect on each remaining group."""
    counts = [amount(count, *_VERDICTS[kind]) for kind in _VERDICTS if (count := outlook.verdicts.get(kind, 0))]
    all_told = (
        f"{len(outlook.groups):,} in all: {', '.join(counts)}" if counts else "no group has read the restored topics"
    )
    yield f"  groups: {all_told}"
    if outlook.groups:
        yield f"    types: {render_kinds(group.kind for group in outlook.groups)}"
    worst_first = list(reversed(_VERDICTS))
    affected = sorted(
        (group for group in outlook.groups if group.verdict != "goes on"),
        key=lambda group: worst_first.index(group.verdict),
    )
    for group in affected[:_GROUPS_MAX]:
        yield from _render_group(group)
        yield from render_share_positions(group.share_positions, indent="    ")
    if len(affected) > _GROUPS_MAX:
        yield f"    and {len(affected) - _GROUPS_MAX:,} more that do not continue where they were (-o json has all)"
    refused = [group.group for group in affected if group.refused]
    if refused:
        names, patterns = named(refused, most=_GROUPS_MAX), shlex.quote(only_these(refused[:_GROUPS_MAX]))
        yield (
            "    hint: look for another commit (offsite show). To set them anyway after the restore: offsite groups "
            f"apply --backup {backup} --restore ID --groups {patterns} --clamp"
        )
        yield f"    the restore will end with exit code {outlook.exit_code}, because of {names}"
    for failure in outlook.unsettable[:_GROUPS_MAX]:
        yield f"    NOT SET: {failure.group}: {failure.message}"
    if len(outlook.unsettable) > _GROUPS_MAX:
        more = amount(len(outlook.unsettable) - _GROUPS_MAX, "more group that is", "more groups that are")
        yield f"    and {more} not set (-o json has all)"
    yield from remark_lines(outlook.notes, indent="    ")
    yield from render_gone(outlook.gone)


def _render_group(group: ForeseenGroup) -> Iterator[Line]:
    name = f"{group.group} (exactly once)" if group.exactly_once else group.group
    if group.refused:
        yield (
            f"    CANNOT CONTINUE: {name}: none of its {group.offsets:,} offsets will be set; do not start it "
            "before you decide"
        )
    for refused in group.refused[:_PARTITIONS_MAX]:
        yield f"      at {refused.offset:,} of {refused.topic}/{refused.partition}: {refused.why}"
    if len(group.refused) > _PARTITIONS_MAX:
        yield f"      and {amount(len(group.refused) - _PARTITIONS_MAX, 'more partition')} (-o json has all)"
    for clamped in group.clamped[:_PARTITIONS_MAX]:
        where = f"{clamped.topic}/{clamped.partition}"
        yield (
            f"    READS AGAIN: {name}: {where} from {clamped.end:,} on: it had read to {clamped.offset:,}, but the "
            "restore ends earlier"
        )
    if group.left_out:
        yield (
            f"    IN PART: {name}: {group.left_out:,} of its {group.offsets:,} offsets are not "
            "set: their partitions are not restored one to one"
        )
    if group.behind and not group.refused:
        yield (
            f"    LOST AT THE SOURCE: {name}: {amount(group.behind, 'offset')}: the source had deleted the next "
            "records before the backup read them; the group continues at the first existing record"
        )


def _render_newer(report: RestorePlanReport | RestoreResult) -> Iterator[Line]:
    if report.newer_commit is None:
        return
    yield f"  the backup has commit {report.newer_commit} by now: this restore began with commit {report.commit}"
    yield "  to restore the newer commit instead: delete the target topics, and run the same command again"


def _held_back(topic: str, setting: str, value: str) -> tuple[str, str]:
    whose = f"{setting}={value}, as at the source" if value else f"the brokers' default of {setting}"
    change = f"--add-config {setting}={value}" if value else f"--delete-config {setting}"
    return (
        f"  not set yet on {topic}: {whose}: it would delete restored records",
        f"    when you are done: kafka-configs.sh --alter --topic {topic} {change}",
    )


def _source_name(topic: TopicPlanReport) -> str:
    return f"{topic.source} (schemas)" if topic.holds_schemas else topic.source


def _render_verdict(result: RestoreResult) -> Iterator[Line]:
    if result.problem:
        yield f"  {result.problem}"
    elif result.verified and not result.lacking:
        yield "  verified: every record was read back and equals the backup"
    elif result.verified:
        yield "  verified: every record in the backup was read back and is the same"
    if result.lacking:
        yield "  the backup itself lacks:"
        yield from render_lacking(result.lacking)
    yield from _render_expected(result.expected_deletions)
    yield from render_open(result.findings, result.uncompared)
    if result.findings or result.uncompared:
        yield "  consumer groups were not changed"
    if result.uncompared:
        ends = f"--backup {result.backup} --restore {result.restore} --against BROKERS"
        yield f"  compare again: offsite verify {ends}"


def _render_ids(ids: RestoredIds) -> Iterator[Line]:
    if ids.way is SchemaIdsWay.KEEP:
        yield f"  the schemas are registered at {ids.registry}, under their ids"
    elif ids.way is SchemaIdsWay.REWRITE:
        yield f"  {amount(ids.changed, 'key or value has', 'keys and values have')} a schema id of {ids.registry}"
    left = [(topic, fields) for topic, counts in ids.topics.items() for fields in counts.left]
    for topic, fields in left[:_LEFT_MAX]:
        yield (
            f"  LEFT: {topic}: {amount(fields.fields, 'key or value begins', 'keys and values begin')} as those with a "
            f"schema id of the source do, and {'stays' if fields.fields == 1 else 'stay'}: {fields.reason} (first: "
            f"source partition {fields.partition}, offset {fields.first_offset:,})"
        )
    if len(left) > _LEFT_MAX:
        yield f"  LEFT: {amount(len(left) - _LEFT_MAX, 'more topic or reason', 'more topics or reasons')} (see -o json)"


def render_what_came_back(result: RestoreResult) -> Iterator[Line]:
    size = format_size(result.bytes)
    yield f"restore {result.restore}: {amount(result.records, 'record')}, {size}, as of commit {result.commit}"
    yield from _render_newer(result)
    if result.consistency is not None:
        yield from render_consistency(result.consistency)
    is_cut = result.consistency is not None and result.consistency.left_out_count > 0
    kind = "aborted or cut" if is_cut else "aborted"
    for name, topic in result.topics.items():
        invisible = "stay aborted" if topic.same_offsets else "left out"
        aborted = f", {topic.invisible_records:,} {kind} records {invisible}" if topic.invisible_records else ""
        offsets_text = " at their offsets" if topic.same_offsets else ""
        renamed = f" (from {topic.source})" if topic.source != name else ""
        yield (
            f"  {name}{renamed}: {amount(topic.records, 'record')} in "
            f"{amount(topic.partitions, 'partition')}{offsets_text}{aborted}"
        )
    for skipped, reason in result.skipped:
        yield f"  skipped: {skipped}: {reason}"
    yield from _render_incarnations(result.incarnations)
    for name, setting, value in result.held_back:
        yield from _held_back(name, setting, value)
    yield from _render_verdict(result)
    if result.schema_ids is not None:
        yield from _render_ids(result.schema_ids)
    for name, setting, reason in result.left_out:
        yield f"  left out: {name} does not have the source's {setting}: {reason}"
    yield from render_applied(result.metadata)
    yield from remark_lines(result.notes)
