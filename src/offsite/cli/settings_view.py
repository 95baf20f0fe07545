"""Settings of topics and of a cluster, as `show --metadata` prints them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.model.cluster_settings import ClusterSettings
    from offsite.services.overview import TopicDetail


def render_topic_settings(console: Console, topics: Iterable[TopicDetail]) -> None:
    for topic in topics:
        settings = (
            ", ".join(f"{name}={value}" for name, value in topic.configs.items()) or "all as the brokers have them"
        )
        console.print(f"settings of {topic.topic}: {settings}", markup=False)


def render_cluster_settings(console: Console, settings: ClusterSettings | None) -> None:
    if settings is None:
        console.print("the backup has no settings of the cluster at this restore point")
        return
    quotas = settings.quotas and [f"{q.entity}: {_limits(q.limits)}" for q in settings.quotas]
    _render(console, "ACLs", settings.acls)
    _render(console, "client quotas", quotas)
    _render(console, "SCRAM users (without what they log in with)", settings.scram_users)


def _render(console: Console, what: str, lines: Iterable[object] | None) -> None:
    if lines is None:
        console.print(f"{what}: could not be read when the backup was made")
        return
    found = [str(line) for line in lines]
    console.print(f"{what}: {len(found) or 'none'}")
    for line in found:
        console.print(f"  {line}", markup=False)


def _limits(limits: Iterable[tuple[str, float]]) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in limits)
