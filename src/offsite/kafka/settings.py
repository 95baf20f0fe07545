"""The settings of a cluster besides topics and groups: access rules, client quotas, SCRAM users, settings of brokers,
and the names of what else has settings. Plain values in and out, offsite's own errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast

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
from offsite.model.errors import KafkaProtocolError, KafkaTooOld, KafkaUnavailable
from offsite.model.names import amount

_KINDS = {BROKERS: BROKER, GROUPS: GROUP}
_GROUPS_MAX = 200
"""Groups in one request: a group answers with some 15 settings."""
FOLLOWING_S = 300.0
"""For how long a run that follows takes settings as read: they change seldom, and it would ask in every round."""
T = TypeVar("T")


class SettingsClient:
    """The settings of one cluster. Every method raises `KafkaUnavailable` when the cluster does not answer and `Denied`
    when a right is missing."""

    def __init__(self, router: Router, *, clock: Clock) -> None:
        self._router, self._clock = router, clock
        self._answers: dict[str, tuple[float, object]] = {}

    def acls(self) -> tuple[Acl, ...]:
        """Return all access rules, sorted. Raises `NoAuthorizer` where brokers keep none."""
        return self._router.call(describe_acls_request())

    def create_acls(self, acls: Sequence[Acl]) -> Sequence[str]:
        """Add rules, at most once each. Returns one text per rule: empty, or the reason of the refusal."""
        return [
            problem
            for part in split_requests(acls, lambda _: 1)
            for problem in _one_each(self._router.call_controller(create_acls_request(part)), part, "access rules")
        ]

    def client_quotas(self) -> tuple[ClientQuota, ...]:
        """Return the limits of all entities, sorted."""
        return self._router.call(describe_quotas_request())

    def set_client_quotas(self, quotas: Sequence[ClientQuota]) -> Sequence[str]:
        """Set the named limits. Returns one text per entity: empty, or the reason of the refusal."""
        return [
            problem
            for part in split_requests(quotas, lambda quota: 1 + len(quota.limits))
            for problem in _one_each(self._router.call_controller(alter_quotas_request(part)), part, "client quotas")
        ]

    def scram_users(self) -> tuple[ScramUser, ...]:
        """Return the users who may log in by SCRAM, sorted, without credentials."""
        return self._router.call(describe_scram_users_request())

    def broker_configs(self) -> Sequence[Mapping[str, str]]:
        """Return the settings of every broker, defaults included. Secret and unset settings are absent."""

        def ask() -> Sequence[Mapping[str, str]]:
            requests = {node_id: broker_configs_request(node_id) for node_id in self._router.metadata([]).brokers}
            return [configs for answer in self._router.call_each(requests).values() for configs in answer.values()]

        return through_outage(ask, self._clock, limit_s=DEAD_BROKER_MAX_S)

    def dynamic_broker_settings(self, *, max_age_s: float = 0.0) -> Mapping[str, Mapping[str, str | None]]:
        """Return the settings made while brokers ran, sorted; None for a secret. Keys: a broker's id as text, or an
        empty text for settings of all brokers. An answer, or a failure to answer, of the last `max_age_s` counts."""
        return self._remembered("dynamic", self._ask_dynamic, max_age_s)

    def configured(self, *, max_age_s: float = 0.0) -> Mapping[int, Mapping[str, Mapping[str, str] | None]]:
        """Return the groups (`GROUP`) and the client metrics subscriptions (`CLIENT_METRICS`) that have settings,
        sorted, with the settings of groups; None for a group whose settings may not be read. Brokers before 4.1 list no
        groups, brokers before 3.7 list nothing. `max_age_s` as above."""
        return self._remembered("configured", self._ask_configured, max_age_s)

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
        (outcome,) = _one_each(self._router.call_controller(request), [name], "settings")
        return f"{error_name(outcome.error_code)} ({outcome.detail})" if outcome.error_code else ""

    def _remembered(self, name: str, ask: Callable[[], T], max_age_s: float) -> T:
        """The answer of `ask`, or its failure, unless one is younger than `max_age_s`."""
        now_s = self._clock.monotonic_s()
        if name not in self._answers or now_s - self._answers[name][0] >= max_age_s:
            try:
                self._answers[name] = now_s, ask()
            except KafkaUnavailable as error:
                self._answers[name] = now_s, error
        answer = self._answers[name][1]
        if isinstance(answer, KafkaUnavailable):
            raise answer
        return cast("T", answer)

    def _ask_dynamic(self) -> Mapping[str, Mapping[str, str | None]]:
        settings: dict[str, dict[str, str | None]] = {}
        requests = {node_id: dynamic_configs_request(node_id) for node_id in self._router.metadata([]).brokers}
        for answer in self._router.call_each(requests).values():
            for whose, configs in answer.items():
                settings.setdefault(whose, {}).update(configs)
        return {whose: dict(sorted(configs.items())) for whose, configs in sorted(settings.items()) if configs}

    def _ask_configured(self) -> Mapping[int, Mapping[str, Mapping[str, str] | None]]:
        configs: dict[str, Mapping[str, str] | None] = {}
        with self._router.lease_any() as connection:
            try:
                version = connection.highest_version(Api.LIST_CONFIG_RESOURCES, *LIST_VERSIONS)
            except KafkaTooOld:
                return {}
            resources = connection.call(config_resources_request(version))
            groups = resources.get(GROUP, ())
            for first in range(0, len(groups), _GROUPS_MAX):
                part = groups[first : first + _GROUPS_MAX]
                answer = connection.call(group_configs_request(part))
                if left_out := [group for group in part if group not in answer]:
                    raise KafkaProtocolError(f"the answer leaves out the settings of {left_out[0]}", hint=_ODD_HINT)
                configs |= {group: answer[group] for group in part if answer[group] != {}}
        return {CLIENT_METRICS: dict.fromkeys(resources.get(CLIENT_METRICS, ())), GROUP: configs}


_ODD_HINT = "check the logs of the brokers, then run the same command again: what is set already stays"


def _one_each(outcomes: Sequence[T], asked: Sequence[object], what: str) -> Sequence[T]:
    """`outcomes`, one for each of `asked`. Raises `KafkaProtocolError` for another number: nobody knows what is set."""
    if len(outcomes) != len(asked):
        raise KafkaProtocolError(
            f"the answer to a change of {len(asked)} {what} has {amount(len(outcomes), 'outcome')}", hint=_ODD_HINT
        )
    return outcomes
