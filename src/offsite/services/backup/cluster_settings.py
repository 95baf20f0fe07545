"""A cluster's settings beside topics, as far as it lets us read them.

Secrets are never read. What a cluster does not let us read is reported, and is no reason to fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from offsite.model.cluster_settings import Acl, ClientQuota, ClusterSettings, ScramUser
from offsite.model.errors import KafkaNotAuthorized, KafkaProtocolError, NoAuthorizer

T = TypeVar("T")


class ReadableSettings(Protocol):
    """The settings of a cluster beside topics."""

    def acls(self) -> tuple[Acl, ...]: ...

    def client_quotas(self) -> tuple[ClientQuota, ...]: ...

    def scram_users(self) -> tuple[ScramUser, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSettings:
    """The settings of a cluster that could be read. `not_read` says which parts could not, and why; these are None in
    `settings`. Without an authorizer a cluster keeps no ACLs."""

    settings: ClusterSettings
    not_read: tuple[str, ...]
    has_authorizer: bool


def read_cluster_settings(admin: ReadableSettings) -> FoundSettings:
    """The settings that the cluster lets us read."""
    problems: list[str] = []
    has_authorizer = True
    try:
        acls = _read("ACLs", admin.acls, problems)
    except NoAuthorizer:
        acls, has_authorizer = (), False
    settings = ClusterSettings(
        acls=acls,
        quotas=_read("client quotas", admin.client_quotas, problems),
        scram_users=_read("SCRAM users", admin.scram_users, problems),
    )
    return FoundSettings(settings=settings, not_read=tuple(problems), has_authorizer=has_authorizer)


def _read(what: str, read: Callable[[], T], problems: list[str]) -> T | None:
    try:
        return read()
    except (KafkaNotAuthorized, KafkaProtocolError) as error:
        problems.append(f"{what} could not be read: {error.message}")
        return None
