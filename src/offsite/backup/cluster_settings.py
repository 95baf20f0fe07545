"""Reads the settings of a cluster beside topics, as far as the cluster allows.

Secrets are never read. A denied setting is reported and is no failure. Settings outside of every backup are listed by
name, before anybody misses them on a lost cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from offsite.kafka.groups import FetchedGroups
from offsite.kafka.protocol.configs import CLIENT_METRICS, GROUP
from offsite.kafka.settings import FOLLOWING_S, SettingsClient
from offsite.model.cluster_settings import BROKERS, GROUPS, ClusterSettings, ResourceConfigs
from offsite.model.errors import (
    DamagedObject,
    FormatTooNew,
    KafkaNotAuthorized,
    KafkaProtocolError,
    KafkaUnavailable,
    NoAuthorizer,
    OffsiteError,
)
from offsite.model.names import amount, named
from offsite.repository.commit import SnapshotRef
from offsite.repository.snapshots.named_object import get_cluster_snapshot
from offsite.repository.state import BackupState
from offsite.stores.store import Store

T = TypeVar("T")

_NAMED_MAX, _NAME_MAX = 10, 100
"""At most so many names in a sentence, and characters of a name."""
_DENIED = (KafkaNotAuthorized, KafkaProtocolError)
_UNREAD = (*_DENIED, KafkaUnavailable)
_LINES_MAX = 5
"""At most so many sentences on brokers with different settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedSettings:
    """The settings that could be read from the cluster. `not_read` names every part that could not be read, with the
    reason; the same part is None in `settings`. A cluster without an authorizer keeps no ACLs. `unread`: kind and name
    of resources whose settings could not be read; an empty name is the whole kind."""

    settings: ClusterSettings
    not_read: tuple[str, ...]
    has_authorizer: bool
    unread: frozenset[tuple[str, str]] = frozenset()

    def known(self, previous: PreviousSettings, store: Store, base: BackupState) -> ClusterSettings:
        """The settings, with those of groups and brokers that the commit before has where they could not be read."""
        if not self.unread or base.metadata is None:
            return self.settings
        former = previous.configs(store, base.metadata)
        kept = [of for of in former if {(of.kind, ""), (of.kind, of.name)} & self.unread]
        return replace(self.settings, configs=tuple(sorted((*self.settings.configs, *kept))))


class PreviousSettings:
    """The settings of groups and of all brokers of the base commit, read once and cached for the rounds of a run that
    follows."""

    def __init__(self) -> None:
        self._ref: SnapshotRef | None = None
        self._configs: tuple[ResourceConfigs, ...] = ()

    def configs(self, store: Store, ref: SnapshotRef) -> tuple[ResourceConfigs, ...]:
        """The settings that `ref` names; empty where they cannot be read."""
        if ref != self._ref:
            try:
                self._ref, self._configs = ref, get_cluster_snapshot(store, ref).configs
            except (DamagedObject, FormatTooNew):
                return ()
        return self._configs


def read_cluster_settings(client: SettingsClient) -> ObservedSettings:
    """Read the settings that the cluster allows us to read."""
    problems: list[str] = []
    has_authorizer = True
    try:
        acls = _read("ACLs", client.acls, problems)
    except NoAuthorizer:
        acls, has_authorizer = (), False
    settings = ClusterSettings(
        acls=acls,
        quotas=_read("client quotas", client.client_quotas, problems),
        scram_users=_read("SCRAM users", client.scram_users, problems),
    )
    return ObservedSettings(settings=settings, not_read=tuple(problems), has_authorizer=has_authorizer)


def with_not_carried(
    observed: ObservedSettings, client: SettingsClient, groups: FetchedGroups | None
) -> ObservedSettings:
    """Add to `observed` the settings of groups and of all brokers, and the names of everything else on the cluster,
    including the groups of `groups` whose kinds no restore brings back."""
    not_carried = list(_groups(groups))
    subject, of_brokers = "dynamic settings of brokers", partial(client.dynamic_broker_settings, max_age_s=FOLLOWING_S)
    brokers = _read(subject, of_brokers, not_carried, passed_over=_UNREAD)
    not_carried += _brokers(brokers or {})
    subject = "groups and metrics of clients that have settings"
    of_groups = partial(client.configured, max_age_s=FOLLOWING_S)
    configured = _read(subject, of_groups, not_carried, passed_over=_UNREAD)
    not_carried += _configured(configured or {})
    configs = (*_of_all_brokers(brokers or {}), *_of_groups(configured or {}))
    unread = {(GROUPS, name) for name, values in (configured or {}).get(GROUP, {}).items() if values is None}
    unread |= {(kind, "") for kind, answer in {BROKERS: brokers, GROUPS: configured}.items() if answer is None}
    settings = replace(observed.settings, not_carried=tuple(not_carried), configs=tuple(sorted(configs)))
    return replace(observed, settings=settings, unread=frozenset(unread))


def read_configs(client: SettingsClient) -> tuple[ResourceConfigs, ...]:
    """The settings of groups and of all brokers as they are now, without secrets. Raises the errors of `client`."""
    return tuple(sorted((*_of_all_brokers(client.dynamic_broker_settings()), *_of_groups(client.configured()))))


def _of_all_brokers(brokers: Mapping[str, Mapping[str, str | None]]) -> Iterator[ResourceConfigs]:
    configs = {name: value for name, value in brokers.get("", {}).items() if value is not None}
    if configs:
        yield ResourceConfigs(kind=BROKERS, name="", configs=tuple(sorted(configs.items())))


def _of_groups(configured: Mapping[int, Mapping[str, Mapping[str, str] | None]]) -> Iterator[ResourceConfigs]:
    for name, configs in configured.get(GROUP, {}).items():
        if configs:
            yield ResourceConfigs(kind=GROUPS, name=name, configs=tuple(sorted(configs.items())))


def _groups(groups: FetchedGroups | None) -> Iterator[str]:
    by_kind: dict[str, list[str]] = {}
    for group in groups.not_carried if groups is not None else ():
        by_kind.setdefault(group.kind, []).append(group.group)
    for kind, names in sorted(by_kind.items()):
        yield f"{amount(len(names), f'{kind} group')}: {_some(names)}"


def _brokers(settings: Mapping[str, Mapping[str, str | None]]) -> Iterator[str]:
    """Settings of single brokers, and secrets of all brokers."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for whose, configs in settings.items():
        names = tuple(name for name, value in configs.items() if whose or value is None)
        if names:
            alike.setdefault(names, []).append(whose)
    for names, brokers in list(alike.items())[:_LINES_MAX]:
        of = "all brokers" if brokers == [""] else f"{'broker' if len(brokers) == 1 else 'brokers'} {_some(brokers)}"
        yield f"settings of {of}: {_some(names)}"
    if len(alike) > _LINES_MAX:
        yield f"settings of {len(alike) - _LINES_MAX} more kinds of brokers"


def _configured(configured: Mapping[int, Mapping[str, Mapping[str, str] | None]]) -> Iterator[str]:
    """Groups whose settings were not read, and subscriptions."""
    for kind, subject in {GROUP: "settings of groups", CLIENT_METRICS: "subscriptions to metrics of clients"}.items():
        if names := [name for name, configs in configured.get(kind, {}).items() if configs is None]:
            yield f"{subject}: {_some(names)}"


def _some(names: Sequence[str]) -> str:
    return named([name[:_NAME_MAX] for name in names], most=_NAMED_MAX)


def _read(
    subject: str, read: Callable[[], T], problems: list[str], *, passed_over: tuple[type[OffsiteError], ...] = _DENIED
) -> T | None:
    """What `read` returns; None, with a problem noted, for the errors `passed_over`."""
    try:
        return read()
    except passed_over as error:
        problems.append(f"{subject} could not be read: {error.message}")
        return None
