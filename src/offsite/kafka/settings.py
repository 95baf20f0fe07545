"""The settings of a cluster besides topics and groups: access rules, client quotas, SCRAM users, settings of brokers,
and the names of what else has settings. Plain values in and out, offsite's own errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offsite.kafka.net.backoff import DEAD_BROKER_MAX_S, through_outage
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.broker_errors import error_name
from offsite.kafka.protocol.cluster_settings import (
    alter_quotas_request,
    create_acls_request,
    describe_acls_request,
    describe_quotas_request,
    describe_scram_users_request,
)
from offsite.kafka.protocol.configs import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    LIST_VERSIONS,
    alter_configs_request,
    broker_configs_request,
    config_resources_request,
    dynamic_configs_request,
    group_configs_request,
)
from offsite.kafka.protocol.metadata import split_requests
from offsite.kafka.protocol.request import Api
from offsite.model.clock import Clock
from offsite.model.cluster_settings import BROKERS, GROUPS, Acl, ClientQuota, ResourceConfigs, ScramUser
from offsite.model.errors import KafkaTooOld, KafkaUnavailable

_KINDS = {BROKERS: BROKER, GROUPS: GROUP}
_GROUPS_MAX = 200  # further groups count as configured, as listed by brokers
_DYNAMIC_S = 300.0  # broker settings change seldom, and a following run would ask in every round


class SettingsClient:
    """The settings of one cluster. Every method raises `KafkaUnavailable` when the cluster does not answer and `Denied`
    when a right is missing."""

    def __init__(self, router: Router, *, clock: Clock) -> None:
        self._router, self._clock = router, clock
        self._dynamic: tuple[float, Mapping[str, Mapping[str, str | None]] | KafkaUnavailable] | None = None

    def acls(self) -> tuple[Acl, ...]:
        """Return all access rules, sorted. Raises `NoAuthorizer` where brokers keep none."""
        return self._router.call(describe_acls_request())

    def create_acls(self, acls: Sequence[Acl]) -> Sequence[str]:
        """Add rules, at most once each. Returns one text per rule: empty, or the reason of the refusal."""
        parts = split_requests(acls, lambda _: 1)
        return [problem for part in parts for problem in self._router.call_controller(create_acls_request(part))]

    def client_quotas(self) -> tuple[ClientQuota, ...]:
        """Return the limits of all entities, sorted."""
        return self._router.call(describe_quotas_request())

    def set_client_quotas(self, quotas: Sequence[ClientQuota]) -> Sequence[str]:
        """Set the named limits. Returns one text per entity: empty, or the reason of the refusal."""
        parts = split_requests(quotas, lambda quota: 1 + len(quota.limits))
        return [problem for part in parts for problem in self._router.call_controller(alter_quotas_request(part))]

    def scram_users(self) -> tuple[ScramUser, ...]:
        """Return the users who may log in by SCRAM, sorted, without credentials."""
        return self._router.call(describe_scram_users_request())

    def broker_configs(self) -> Sequence[Mapping[str, str]]:
        """Return the settings of every broker, defaults included. Secret and unset settings are absent."""

        def ask() -> Sequence[Mapping[str, str]]:
            requests = {node_id: broker_configs_request(node_id) for node_id in self._router.metadata([]).brokers}
            return [configs for answer in self._router.call_each(requests).values() for configs in answer.values()]

        return through_outage(ask, self._clock, limit_s=DEAD_BROKER_MAX_S)

    def dynamic_broker_settings(self) -> Mapping[str, Mapping[str, str | None]]:
        """Return the settings made while brokers ran, sorted; None for a secret. Keys: a broker's id as text, or an
        empty text for settings of all brokers. The answer, or the failure to answer, is remembered for `_DYNAMIC_S`."""
        now_s = self._clock.monotonic_s()
        if self._dynamic is None or now_s - self._dynamic[0] >= _DYNAMIC_S:
            self._dynamic = now_s, self._ask_dynamic()
        settings = self._dynamic[1]
        if isinstance(settings, KafkaUnavailable):
            raise settings
        return settings

    def configured(self) -> Mapping[int, Mapping[str, Mapping[str, str] | None]]:
        """Return the groups (`GROUP`) and the client metrics subscriptions (`CLIENT_METRICS`) that have settings,
        sorted, with the settings of groups; None where they were not asked for. Brokers before 4.1 list no groups,
        brokers before 3.7 list nothing."""
        with self._router.lease_any() as connection:
            try:
                version = connection.highest_version(Api.LIST_CONFIG_RESOURCES, *LIST_VERSIONS)
            except KafkaTooOld:
                return {}
            resources = connection.call(config_resources_request(version))
            groups = resources.get(GROUP, ())[:_GROUPS_MAX]
            configs = connection.call(group_configs_request(groups)) if groups else {}
        rest = dict.fromkeys(resources.get(GROUP, ())[_GROUPS_MAX:])
        return {
            CLIENT_METRICS: dict.fromkeys(resources.get(CLIENT_METRICS, ())),
            GROUP: {**{group: configs[group] for group in groups if group in configs}, **rest},
        }

    def set_configs(self, changes: Sequence[ResourceConfigs]) -> Sequence[str]:
        """Set the settings. Returns one text per setting, in order: empty, or the reason of the refusal. Brokers refuse
        all settings of a resource because of one, so each is then set alone."""
        return [problem for change in changes for problem in self._set_configs(change)]

    def _set_configs(self, change: ResourceConfigs) -> Sequence[str]:
        kind, alone = _KINDS[change.kind], [(setting,) for setting in change.configs]
        if not self._refusal(kind, change.name, change.configs):
            return [""] * len(alone)
        return [self._refusal(kind, change.name, setting) for setting in alone]

    def _refusal(self, kind: int, name: str, configs: Sequence[tuple[str, str]]) -> str:
        request = alter_configs_request({name: dict(configs)}, kind=kind)
        (outcome,) = self._router.call_controller(request)
        return f"{error_name(outcome.error_code)} ({outcome.detail})" if outcome.error_code else ""

    def _ask_dynamic(self) -> Mapping[str, Mapping[str, str | None]] | KafkaUnavailable:
        settings: dict[str, dict[str, str | None]] = {}
        try:
            requests = {node_id: dynamic_configs_request(node_id) for node_id in self._router.metadata([]).brokers}
            for answer in self._router.call_each(requests).values():
                for whose, configs in answer.items():
                    settings.setdefault(whose, {}).update(configs)
        except KafkaUnavailable as error:
            return error
        return {whose: dict(sorted(configs.items())) for whose, configs in sorted(settings.items()) if configs}
