"""Shows settings of topics and of a cluster, for `show --metadata` and the restore commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.model.cluster_settings import ClusterSettings
    from offsite.overview.contents import TopicDetail
    from offsite.restore.cluster_settings import AppliedMetadata, MetadataPlan
    from offsite.restore.plan_report import SettingDiff, TopicPlanReport


def render_topic_settings(console: Console, topics: Iterable[TopicDetail]) -> None:
    for topic in topics:
        settings = (
            ", ".join(f"{name}={value}" for name, value in topic.configs.items()) or "all defaults of the brokers"
        )
        console.print(f"settings of {topic.topic}: {settings}")


def render_cluster_settings(console: Console, settings: ClusterSettings | None) -> None:
    if settings is None:
        console.print("the backup has no settings of the cluster at this restore point")
        return
    quotas = settings.quotas and [f"{q.entity}: {_limits(q.limits)}" for q in settings.quotas]
    _render(console, "ACLs", settings.acls)
    _render(console, "client quotas", quotas)
    _render(console, "SCRAM users (without passwords)", settings.scram_users)


def render_topic_diffs(console: Console, topics: Iterable[TopicPlanReport]) -> None:
    for topic in topics:
        for diff in topic.settings:
            console.print(f"  {topic.target}: {_diff(diff, created=topic.create)}")


def render_metadata_plan(console: Console, plan: MetadataPlan) -> None:
    _render_change(console, "ACLs to add", "acls", plan, plan.acls)
    _render_change(console, "client quotas to set", "quotas", plan, plan.limits)
    if plan.users_by_hand:
        console.print("  create these users by hand, a backup has no passwords:")
    for user in plan.users_by_hand:
        console.print(f"    {user}")
    render_not_carried(console, plan.not_carried)


def render_applied(console: Console, applied: AppliedMetadata) -> None:
    if applied.acls or applied.limits:
        console.print(f"  set on the cluster: {applied.acls} ACLs, {applied.limits} client quota limits")
    for refused in applied.refused:
        console.print(f"  the target refused {refused}")
    render_not_carried(console, applied.not_carried)


def render_not_carried(console: Console, lines: Sequence[str]) -> None:
    """Show properties of the source missing from every backup."""
    if lines:
        console.print("  not in the backup, create again by hand:")
    for line in lines:
        console.print(f"    {line}")


def _diff(diff: SettingDiff, *, created: bool) -> str:
    backup = "nothing" if diff.backup is None else diff.backup
    if created:
        unlike = "" if diff.then == diff.backup else f" (in the backup {backup})"
        return f"{diff.setting}={diff.then}{unlike}" if diff.then is not None else f"no {diff.setting}{unlike}"
    return f"keeps {diff.setting}={'default' if diff.now is None else diff.now} (in the backup {backup})"


def _render_change(console: Console, title: str, part: str, plan: MetadataPlan, changes: Sequence[object]) -> None:
    if changes:
        unasked = "" if part in plan.apply else f", not set (add --metadata {part})"
        console.print(f"  {title}: {len(changes)}{unasked}")
    for change in changes:
        console.print(f"    + {change}")


def _render(console: Console, title: str, lines: Iterable[object] | None) -> None:
    if lines is None:
        console.print(f"{title}: could not be read during the backup")
        return
    texts = [str(line) for line in lines]
    console.print(f"{title}: {len(texts) or 'none'}")
    for line in texts:
        console.print(f"  {line}")


def _limits(limits: Iterable[tuple[str, float]]) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in limits)
