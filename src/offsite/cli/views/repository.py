"""A repository and its restore points, for people: whether every backup is safe, and why not; settings, consistency and
groups of a restore point. Of many topics the first are named; the JSON has all."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from offsite.cli.output import Line, Table, first_lines, remark_lines
from offsite.model.head import Head
from offsite.model.names import amount, named
from offsite.model.selection import join_patterns
from offsite.model.units import format_duration, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsite.groups.groups_as_of import GoneSince
    from offsite.groups.plan import ReadAgain, SharePositions
    from offsite.model.cluster_settings import ClusterSettings
    from offsite.model.schema_registry import RegistrySnapshot
    from offsite.overview.comparison import SourceComparison, TopicComparison
    from offsite.overview.contents import TopicDetail
    from offsite.overview.status import BackupStatus, Status
    from offsite.reports.point_report import ConsistencyReport, HoleReport, LeftOutReport
    from offsite.repository.removal import RemovedBackup
    from offsite.repository.snapshots.check_records import DrillRecord, VerifyRecord
    from offsite.restore.cluster_settings import AppliedMetadata, MetadataPlan
    from offsite.restore.plan_report import SettingDiff, TopicPlanReport
    from offsite.upkeep.retention.report import RetentionOutlook
    from offsite.upkeep.verification.last_checks import LastChecks


_VERDICTS = {True: "proven", False: "NOT PROVEN", None: "nothing proven"}

_NAMED_MAX = 5
"""Transactions, and partitions of a transaction, that are named."""
_COMPARED_MAX = 20
"""Topics shown beside their source, the worst first."""
_TOPICS_MAX = 12
"""Topics whose class is shown when classes differ."""
_NAMED_GROUPS_MAX = 12
"""Groups named; the JSON output has all."""


def render_status(report: Status) -> Iterator[Line]:
    from offsite.overview.verdict import source_alarm, verdict_of

    alarm = source_alarm(report)
    yield f"{'ATTENTION' if alarm else verdict_of(report).word}  {report.repository}"
    if alarm:
        yield f"  !!  {alarm}"
    if not report.backups:
        yield "  no backup yet"
        yield "next: offsite backup run --backup NAME --topics '*'"
    for backup in report.backups:
        yield from _render_backup(backup)
    around = (f"note: {note}" for note in report.notes)
    for line in (*around, *(f"removed on purpose: {_removed(removed)}" for removed in report.removed)):
        yield f"  {line}"


def _render_backup(backup: BackupStatus) -> Iterator[Line]:
    yield _status_line(backup)
    if backup.head_commit:
        yield f"      head {Head(commit=backup.head_commit, hash=backup.head_hash).short}"
    if backup.checks is not None:
        yield from (_verified(backup.checks), _drilled(backup.checks), *_claimed(backup.checks))
    if backup.safe and not backup.proven:
        yield f"      never proven on this machine; to prove it: {_proving(backup.backup)}"
    if backup.retention is not None:
        yield _kept(backup.retention)
    for problem in backup.problems:
        yield f"      {problem}"
    if backup.source is not None:
        yield from _render_source(backup.backup, backup.source)
    yield from remark_lines(backup.notes, indent="      ")


def _proving(backup: str) -> str:
    from offsite.overview.verdict import proving_command

    return proving_command(backup)


def _render_source(backup: str, source: SourceComparison) -> Iterator[Line]:
    from offsite.overview.verdict import restoring_command, source_age

    if source.absent:
        yield f"      source: nothing to compare: {source.absent}"
    if source.problem:
        yield f"      source: not compared: {source.problem}"
    if source.looked_ms < 0:
        return
    counts = ", ".join(f"{count:,} {state}" for state, count in source.counts.items())
    yield f"      source: {source_age(source)}: {counts or 'no topics'}"
    table = Table("topic", "at the source", "backed up to", "behind", "headroom")
    for topic in source.topics[:_COMPARED_MAX]:
        table.add_row(topic.topic, topic.state, _or_dash(topic.restorable_to_ms), _behind(topic), _room(topic))
    yield table
    if more := len(source.topics[_COMPARED_MAX:]):
        yield f"      and {amount(more, 'topic')} more, none of them worse (-o json has all)"
    for topic in source.topics[:_COMPARED_MAX]:
        if topic.detail:
            yield f"      {topic.topic}: {topic.detail}"
        if topic.restore:
            yield f"        restore: {restoring_command(backup, topic.restore)}"


def _or_dash(time_ms: int) -> str:
    return format_time(time_ms) if time_ms >= 0 else "-"


def _behind(topic: TopicComparison) -> str:
    if topic.lag_records < 0:
        return "-"
    late = f", {format_duration(topic.lag_s)}" if topic.lag_records and topic.lag_s is not None else ""
    return f"{amount(topic.lag_records, 'record')}{late}"


def _room(topic: TopicComparison) -> str:
    return "-" if topic.headroom_s is None else format_duration(topic.headroom_s)


def _removed(removed: RemovedBackup) -> str:
    why = f": {removed.why}; {removed.by}, by {removed.who}" if removed.who else ", as its ledger says"
    return f"{removed.backup}, {format_time(removed.at_ms)}{why}"


def _status_line(backup: BackupStatus) -> str:
    if not backup.restorable_to_ms:
        return f"  !!  {backup.backup}"
    age = "dated in the future" if backup.age_s < 0 else f"{format_duration(backup.age_s)} old"
    return (
        f"  {'ok' if backup.safe else '!!'}  {backup.backup}: restorable from {format_time(backup.restorable_from_ms)} "
        f"to {format_time(backup.restorable_to_ms)}, {age}"
    )


def _verified(checks: LastChecks) -> str:
    return f"      last verify: {', '.join(map(_check, checks.verified)) or 'never on this machine'}"


def _check(record: VerifyRecord) -> str:
    outcome = "ok" if record.ok else f"{record.damaged} DAMAGED"
    return f"{record.depth} {format_time(record.verified_at_ms)} {outcome}"


def _claimed(checks: LastChecks) -> Iterator[str]:
    """Yield the repository's claims about checks made elsewhere."""
    for record in checks.claimed:
        yield f"{_claim_of(record)} verify {_check(record)}"
    if (drill := checks.claimed_drill) is not None:
        drill_text = f"drill {format_time(drill.ended_ms)} {_VERDICTS[drill.proven]}"
        yield f"{_claim_of(drill)} {drill_text}"


def _claim_of(record: VerifyRecord | DrillRecord) -> str:
    return f"      claimed by {record.by or 'an unknown installation'}, not made on this machine:"


def _drilled(checks: LastChecks) -> str:
    if checks.drill is None:
        return "      last drill: never on this machine"
    verdict = _VERDICTS[checks.drill.proven]
    before = f", last proven {format_time(checks.proven_ms) if checks.proven_ms >= 0 else 'never'}"
    return f"      last drill: {format_time(checks.drill.ended_ms)} {verdict}{'' if checks.drill.proven else before}"


def _kept(outlook: RetentionOutlook) -> str:
    summary = f"      kept: {amount(outlook.restore_points, 'restore point')}, {outlook.pinned} pinned"
    if not outlook.applied_ms:
        return f"{summary}; retention has deleted nothing yet"
    gone = f"commit {outlook.applied_commit} of {format_time(outlook.applied_ms)} deleted data {outlook.rule}"
    waiting = f", {format_size(outlook.waiting_bytes)} wait for collection" if outlook.waiting_bytes else ""
    after = f", not before {format_time(outlook.next_ms)}" if outlook.next_ms else ""
    following = f"; next: commit {outlook.next_commit}{after}" if outlook.next_commit else ""
    return f"{summary}; {gone}{waiting}{following}"


def render_topic_settings(topics: Iterable[TopicDetail]) -> Iterator[Line]:
    for topic in topics:
        settings = (
            ", ".join(f"{name}={value}" for name, value in topic.configs.items()) or "all defaults of the brokers"
        )
        yield f"settings of {topic.topic}: {settings}"


def render_cluster_settings(settings: ClusterSettings | None) -> Iterator[Line]:
    if settings is None:
        yield "the backup has no settings of the cluster at this restore point"
        return
    quotas = settings.quotas and [f"{q.entity}: {_limits(q.limits)}" for q in settings.quotas]
    yield from _render("ACLs", settings.acls)
    yield from _render("client quotas", quotas)
    yield from _render("SCRAM users (without passwords)", settings.scram_users)
    if settings.configs:
        configs = [f"{of}: {', '.join(f'{name}={value}' for name, value in of.configs)}" for of in settings.configs]
        yield from _render("settings of groups and of all brokers", configs)


def render_registry(snapshot: RegistrySnapshot | None) -> Iterator[Line]:
    if snapshot is None:
        yield "the backup has no schema registry at this restore point"
        return
    table = Table("subject", "version", "id", "type", "uses", "")
    for version in snapshot.versions:
        schema = snapshot.by_version.get((version.subject, version.version))
        uses = [f"{used.subject} {used.version}" for used in schema.references] if schema is not None else []
        table.add_row(
            version.subject,
            str(version.version),
            str(version.id),
            schema.kind if schema is not None else "?",
            named(uses, most=_NAMED_MAX) if uses else "",
            "deleted" if version.is_deleted else "",
        )
    yield table
    gone = [str(schema.id) for schema in snapshot.schemas if schema.is_gone]
    if gone:
        yield f"gone from the registry, kept because records may have the ids: {named(gone, most=_NAMED_GROUPS_MAX)}"
    for settings in snapshot.settings:
        words = [word for word in (settings.compatibility, settings.mode, settings.more) if word]
        yield f"settings of {settings.subject or 'all subjects'}: {', '.join(words)}"
    yield from (f"note: {line}" for line in snapshot.unread)


def render_topic_diffs(topics: Iterable[TopicPlanReport]) -> Iterator[Line]:
    for topic in topics:
        for diff in topic.settings:
            yield f"  {topic.target}: {_diff(diff, created=topic.create)}"


def render_metadata_plan(plan: MetadataPlan) -> Iterator[Line]:
    yield from _render_change("ACLs to add", "acls", plan, plan.acls)
    yield from _render_change("client quotas to set", "quotas", plan, plan.limits)
    for kind, title in {"groups": "settings of groups to set", "brokers": "settings of all brokers to set"}.items():
        changes = [change for change in plan.configs if change.kind == kind]
        yield from _render_change(title, kind, plan, [change for change in changes if not change.by_hand])
        yield from (f"    {change}" for change in changes if change.by_hand)
    if plan.users_by_hand:
        yield "  create these users by hand, a backup has no passwords:"
    for user in plan.users_by_hand:
        yield f"    {user}"
    yield from render_not_carried(plan.not_carried)


def render_applied(applied: AppliedMetadata) -> Iterator[Line]:
    if applied.acls or applied.limits or applied.configs:
        settings = f", {applied.configs} settings of groups and brokers" if applied.configs else ""
        yield f"  set on the cluster: {applied.acls} ACLs, {applied.limits} client quota limits{settings}"
    for refused in applied.refused:
        yield f"  the target refused {refused}"
    yield from render_not_carried(applied.not_carried)


def render_not_carried(lines: Sequence[str]) -> Iterator[Line]:
    """Show properties of the source missing from every backup."""
    if lines:
        yield "  not in the backup, create again by hand:"
    for line in lines:
        yield f"    {line}"


def _diff(diff: SettingDiff, *, created: bool) -> str:
    backup = "nothing" if diff.backup is None else diff.backup
    if created:
        unlike = "" if diff.then == diff.backup else f" (in the backup {backup})"
        return f"{diff.setting}={diff.then}{unlike}" if diff.then is not None else f"no {diff.setting}{unlike}"
    return f"keeps {diff.setting}={'default' if diff.now is None else diff.now} (in the backup {backup})"


def _render_change(title: str, part: str, plan: MetadataPlan, changes: Sequence[object]) -> Iterator[Line]:
    if changes:
        unasked = "" if part in plan.apply else f", not set (add --metadata {part})"
        yield f"  {title}: {len(changes)}{unasked}"
    for change in changes:
        yield f"    + {change}"


def _render(title: str, lines: Iterable[object] | None) -> Iterator[Line]:
    if lines is None:
        yield f"{title}: could not be read during the backup"
        return
    texts = [str(line) for line in lines]
    yield f"{title}: {len(texts) or 'none'}"
    for line in texts:
        yield f"  {line}"


def _limits(limits: Iterable[tuple[str, float]]) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in limits)


def render_consistency(report: ConsistencyReport) -> Iterator[Line]:
    """Show the consistency, the class first: the class is the strongest permitted claim."""
    if report.why:
        yield f"  as copied, {report.weakest}: {report.why}"
        return
    yield f"  consistent cut, {report.weakest}"
    if report.newer is not None:
        yield f"    newer: {report.newer}"
    if len({topic_class for _, topic_class in report.classes}) > 1:
        named = ", ".join(f"{topic} {topic_class}" for topic, topic_class in report.classes[:_TOPICS_MAX])
        more = len(report.classes) - _TOPICS_MAX
        yield f"    by topic: {named}{f' and {more:,} more (all of them with -o json)' if more > 0 else ''}"
    yield from _render_left_out(report)
    yield from remark_lines(report.notes, indent="    ")


def _render_left_out(report: ConsistencyReport) -> Iterator[Line]:
    if not report.left_out_count:
        return
    yield f"    left out of the commit, as if aborted: {amount(report.left_out_count, 'transaction')}"
    yield from first_lines(
        report.left_out,
        lambda transaction: f"      {transaction.name} in {_partitions(transaction)}: {transaction.why}",
        most=_NAMED_MAX,
        more="      {} more (the first hundred with -o json)",
    )


def _partitions(transaction: LeftOutReport) -> str:
    more = len(transaction.partitions) - _NAMED_MAX
    return f"{', '.join(transaction.partitions[:_NAMED_MAX])}{f' and {more:,} more' if more > 0 else ''}"


def hole_lines(holes: Iterable[HoleReport], *, begin: str = "  hole: ") -> Iterator[str]:
    """A line for each range of offsets that is missing."""
    return (f"{begin}{hole.topic}/{hole.partition} [{hole.start}, {hole.end}) {hole.reason}" for hole in holes)


def render_share_positions(positions: Sequence[SharePositions], *, indent: str = "  ") -> Iterator[Line]:
    """Show from where share groups deliver again, and where they have no position."""
    more = indent + "and {:,} more (-o json has all)"
    again = [text for share in positions if (text := share.again())]
    beginnings = [text for share in positions if (text := share.beginning())]
    yield from first_lines(again, lambda text: f"{indent}DELIVERS AGAIN: {text}", most=_NAMED_GROUPS_MAX, more=more)
    yield from first_lines(beginnings, lambda text: f"{indent}NO POSITION: {text}", most=_NAMED_GROUPS_MAX, more=more)


def render_reads_again(reads_again: Sequence[ReadAgain], *, indent: str = "  ") -> Iterator[Line]:
    """Show what groups had read beyond the ends of the logs."""
    more = indent + "and {:,} more (-o json has all)"
    yield from first_lines(
        reads_again, lambda again: f"{indent}READS AGAIN: {again}", most=_NAMED_GROUPS_MAX, more=more
    )


def render_kinds(kinds: Iterable[str]) -> str:
    """Return the number of groups of each kind: `2 classic, 1 share`."""
    counts = sorted(Counter(kind or "unknown" for kind in kinds).items())
    return ", ".join(f"{count:,} {kind}" for kind, count in counts)


def render_gone(gone: Sequence[GoneSince]) -> Iterator[Line]:
    """Show the deleted groups, and how to restore deleted groups all the same."""
    more = "  and {:,} more deleted groups (-o json has all)"
    yield from first_lines(gone, lambda group: f"  {group}", most=_NAMED_GROUPS_MAX, more=more)
    if gone:
        patterns = join_patterns(["*", *dict.fromkeys(group.group for group in gone[:_NAMED_GROUPS_MAX])])
        yield f"  to restore them anyway, give their full names: --groups {shlex.quote(patterns)}"
