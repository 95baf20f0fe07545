"""The settings of a cluster besides topics and groups: access rules, client quotas, SCRAM users, settings of brokers,
and the names of what else has settings. Plain values in and out, offsite's own errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offsite.kafka.net.backoff import DEAD_BROKER_MAX_S, through_outage
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.cluster_settings import (
    alter_quotas_request,
    create_acls_request,
    describe_acls_request,
    describe_quotas_request,
    describe_scram_users_request,
)
from offsite.kafka.protocol.configs import (
    GROUP,
    LIST_VERSIONS,
    broker_configs_request,
    config_resources_request,
    dynamic_configs_request,
    group_configs_request,
)
from offsite.kafka.protocol.metadata import split_requests
from offsite.kafka.protocol.request import Api
from offsite.model.clock import Clock
from offsite.model.cluster_settings import Acl, ClientQuota, ScramUser
from offsite.model.errors import KafkaTooOld, KafkaUnavailable

_GROUPS_MAX = 200  # further groups count as configured, as listed by brokers
_DYNAMIC_S = 300.0  # broker settings change seldom, and a following run would ask in every round


class SettingsClient:
    """The settings of one cluster. Every method raises `KafkaUnavailable` when the cluster does not answer and `Denied`
    when a right is missing."""

    def __init__(self, router: Router, *, clock: Clock) -> None:
        self._router, self._clock = router, clock
        self._dynamic: tuple[float, Mapping[str, Sequence[str]] | KafkaUnavailable] | None = None

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

    def dynamic_broker_settings(self) -> Mapping[str, Sequence[str]]:
        """Return the names of settings made while brokers ran, sorted. Keys: a broker's id as text, or an empty text
        for settings of all brokers. The answer, or the failure to answer, is remembered for `_DYNAMIC_S`."""
        now_s = self._clock.monotonic_s()
        if self._dynamic is None or now_s - self._dynamic[0] >= _DYNAMIC_S:
            self._dynamic = now_s, self._ask_dynamic()
        settings = self._dynamic[1]
        if isinstance(settings, KafkaUnavailable):
            raise settings
        return settings

    def configured(self) -> Mapping[int, Sequence[str]]:
        """Return the groups (`GROUP`) and the client metrics subscriptions (`CLIENT_METRICS`) that have settings,
        sorted. Brokers before 4.1 list no groups, brokers before 3.7 list nothing."""
        with self._router.lease_any() as connection:
            try:
                version = connection.highest_version(Api.LIST_CONFIG_RESOURCES, *LIST_VERSIONS)
            except KafkaTooOld:
                return {}
            resources = connection.call(config_resources_request(version))
            groups = resources.get(GROUP, ())[:_GROUPS_MAX]
            configured = connection.call(group_configs_request(groups)) if groups else ()
        return {
            **resources,
            GROUP: [group for group in resources.get(GROUP, ()) if group in configured or group not in groups],
        }

    def _ask_dynamic(self) -> Mapping[str, Sequence[str]] | KafkaUnavailable:
        settings: dict[str, set[str]] = {}
        try:
            requests = {node_id: dynamic_configs_request(node_id) for node_id in self._router.metadata([]).brokers}
            for answer in self._router.call_each(requests).values():
                for whose, names in answer.items():
                    settings.setdefault(whose, set()).update(names)
        except KafkaUnavailable as error:
            return error
        return {whose: sorted(names) for whose, names in sorted(settings.items()) if names}
