"""The desired state of a declared backup, with every default filled in, and the account that its place lies in. Pure.

A place lies below another place by whole path components; links are resolved elsewhere. An invalid URL raises
`BadResource`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from offsite.model.errors import AccountClosed, BadRepositoryUrl, BadResource
from offsite.model.untrusted.place import FILE, StoragePlace, parse_place
from offsite.operator.decide.options import check_words, parse_parameters
from offsite.operator.resources.backup import (
    AgentTemplate,
    Backup,
    BackupSpec,
    DesiredBackupState,
    StrimziListener,
    format_go_time,
)
from offsite.repository.declared.entry import BackupSettings, BackupStart, make_settings

MAXIMUM_RETENTION, MINIMUM_RESTORABLE = "expiry.maximumRetention", "expiry.minimumRestorable"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_DOTS = re.compile(r"\.{2,}")


def folder_of(url: str) -> str | None:
    """Return the path that `url` names, as `open_store` reads the URL; None: not a folder."""
    place = _place(url)
    return place.path if place.scheme == FILE else None


def query_of(url: str) -> str:
    """Return the part after `?`: host and options of a store. Folders have none."""
    return _place(url).query


def with_query(url: str, query: str) -> str:
    """Return `url` with another query, or without one."""
    return url.partition("?")[0] + (f"?{query}" if query else "") if folder_of(url) is None else url


def is_below(prefix: str, url: str) -> bool:
    """Whether `url` is `prefix` or lies below, and is reached in the same way. A path with `..`, or with blanks at its
    end (clients strip them: `.. `), lies below nothing."""
    above, inside = _components(prefix), _components(url)
    return bool(above) and inside[: len(above)] == above and query_of(prefix) == query_of(url)


def _components(url: str) -> tuple[str, ...]:
    """Return the components; empty if the path is not written plainly."""
    place = _place(url)
    if place.scheme == FILE:
        parts = PurePosixPath(place.path).parts
        return () if ".." in parts else (FILE, *parts)
    if not place.path.isprintable() or place.path != place.path.strip():
        return ()
    return place.scheme, place.host, *(place.path.split("/") if place.path else ())


def _place(url: str) -> StoragePlace:
    try:
        return parse_place(url) if url else StoragePlace(scheme=FILE)  # an empty URL lies below nothing
    except BadRepositoryUrl as error:
        named = "a place" if "@" in url else repr(url)  # there may be a password
        raise BadResource(f"{named}: {error.message}", hint=error.hint) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account for backups: a repository, and the secrets of the repository. `environment`: variables and values,
    passed only to the endpoint, to the places in `opens`, and to places below. `namespaces`: namespaces of the
    resources that may name the account. `service_accounts`: allowed Kubernetes service accounts of agents with the
    account. `closed`: why the resources at hand may not name the account. `identities`: identities for resources, with
    the allowed namespaces of every identity."""

    name: str
    endpoint: str
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    opens: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()
    closed: str = ""
    identities: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """All places that the account opens; each includes the places below."""
        return tuple(filter(None, (self.endpoint, *self.opens)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryPlace:
    """A repository, by its account and its URL."""

    account: str
    repository: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredAgents:
    """The agents of a backup: number, template, repository and cluster. `maximum_retention`, `minimum_restorable`:
    the retention that agents agree to when they delete expired data (empty: none). `identity`: identity of a shared
    backup. `strimzi`: where agents reach the cluster, if Strimzi runs it."""

    replicas: int
    template: AgentTemplate
    place: RepositoryPlace
    cluster: str
    maximum_retention: str = ""
    minimum_restorable: str = ""
    identity: str = ""
    strimzi: StrimziListener | None = None

    @property
    def retention_words(self) -> tuple[str, ...]:
        """The retention as command arguments; none if no data expire by age."""
        if not self.maximum_retention:
            return ()
        least = ("--minimum-restorable", self.minimum_restorable) if self.minimum_restorable else ()
        return ("--maximum-retention", self.maximum_retention, *least)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredBackup:
    """`beginning`: start values of the backup that is to run; without a name, because the name contains the start time.
    For a shared backup: `identity`, `name`, and `shared`, a hash of every part that all resources must declare alike.
    `word`: number of statements about the shared backup so far. `stands_by`: another spec is in force."""

    uid: str
    generation: int
    state: DesiredBackupState
    place: RepositoryPlace
    beginning: BackupStart
    timestamp_format: str
    settings: BackupSettings
    agents: DesiredAgents
    name: str = ""
    identity: str = ""
    shared: tuple[tuple[str, str], ...] = ()
    word: int = 0
    stands_by: bool = False

    @property
    def ledger(self) -> str:
        """The name of the ledger."""
        return self.identity or self.uid

    def name_at(self, now_ms: int) -> str:
        """Return the name of a backup that starts now. Backup names have only letters, digits, `.`, `_` and `-`: other
        characters of a format become `.`."""
        stamped = self.beginning.path + format_go_time(self.timestamp_format, now_ms)
        return _DOTS.sub(".", _NOT_IN_NAMES.sub(".", stamped)).strip(".")[:120]


def resolve_backup(backup: Backup, accounts: Sequence[Account], *, current_account: str = "") -> DesiredBackup:
    """Resolve `backup` into its desired state. `current_account`: the account of a backup that names none. Raises
    `BadResource` for an unknown account or parameter, or a missing destination."""
    spec, name = backup.spec, backup.metadata.name
    check_words(spec, parse_parameters(spec.parameters))
    if problem := find_refusal(spec):
        raise BadResource(f"backup {name}: {problem}")
    account = account_of(spec.destination.account or current_account, accounts, f"backup {name}")
    place = place_of(account, spec.destination.endpoint or account.endpoint)
    if not place.repository:
        raise BadResource(f"backup {name} has no destination", hint="give an endpoint, or an account with one")
    if problem := foreign_identity(spec.identity, account):
        raise AccountClosed(f"backup {name}: {problem}")
    cluster = spec.cluster or name
    agents = DesiredAgents(
        replicas=spec.agents.replicas,
        template=spec.agents.template,
        place=place,
        cluster=cluster,
        maximum_retention=spec.expiry.maximum_retention,
        minimum_restorable=spec.expiry.minimum_restorable if spec.expiry.maximum_retention else "",
        identity=spec.identity,
        strimzi=spec.strimzi,
    )
    return _resolved(backup, spec.state, place, agents)


def resolve_stopped_backup(backup: Backup, place: RepositoryPlace, agents: DesiredAgents | None) -> DesiredBackup:
    """Return the desired state of a deleted resource, valid or not: the live backup in `place` is stopped. `agents`:
    the existing agents; they run until the stop."""
    none = DesiredAgents(replicas=0, template=AgentTemplate(), place=place, cluster=backup.spec.cluster)
    return _resolved(backup, DesiredBackupState.STOPPED, place, agents or none)


def _resolved(
    backup: Backup, state: DesiredBackupState, place: RepositoryPlace, agents: DesiredAgents
) -> DesiredBackup:
    spec, name = backup.spec, backup.metadata.name
    return DesiredBackup(
        uid=backup.metadata.uid,
        generation=backup.metadata.generation,
        state=state,
        place=place,
        beginning=BackupStart(
            backup="",
            path=spec.destination.path or name,
            tag=spec.tag,
            cluster=spec.cluster or name,
            topics=spec.topics,
            exclude=spec.exclude,
        ),
        timestamp_format=spec.destination.timestamp_format,
        settings=make_settings(spec.snapshot_duration, spec.parameters),
        agents=agents,
        name=name,
        identity=spec.identity,
        shared=shared_fields(backup) if spec.identity else (),
    )


def shared_fields(backup: Backup) -> tuple[tuple[str, str], ...]:
    """Return a hash of every part that all resources of one backup must declare alike. Agents, accounts and addresses
    may differ."""
    spec, name = backup.spec, backup.metadata.name
    destination, expiry = spec.destination, spec.expiry
    parts: dict[str, object] = {
        "cluster": spec.cluster or name,
        "state": spec.state.value,
        "destination.path": destination.path or name,
        "destination.timestampFormat": destination.timestamp_format,
        "tag": spec.tag,
        "topics": spec.topics,
        "exclude": spec.exclude,
        "snapshotDuration": spec.snapshot_duration,
        "parameters": spec.parameters,
    }
    of_expiry = expiry_fields(expiry.maximum_retention, expiry.minimum_restorable)
    return (*((part, _hash(value)) for part, value in parts.items()), *of_expiry)


def expiry_fields(maximum_retention: str, minimum_restorable: str) -> tuple[tuple[str, str], ...]:
    """Those parts by which old data goes."""
    return (MAXIMUM_RETENTION, _hash(maximum_retention)), (MINIMUM_RESTORABLE, _hash(minimum_restorable))


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def foreign_identity(identity: str, account: Account) -> str:
    """Return why a resource may not share the backup of the identity; empty: allowed. The administrator of the operator
    lists the resources of a backup: a name alone takes over no foreign backup."""
    if not identity or identity in account.identities:
        return ""
    return (
        f"account {account.name or '(none)'} does not list the identity {identity} for it. To share that backup, "
        f"write into the account in accounts.yaml identities: [{{name: {identity}}}], in Kubernetes with its "
        "namespaces"
    )


def account_of(name: str, accounts: Sequence[Account], who: str) -> Account:
    """Return the account of that name; without a name the first account that is not closed. Raises `BadResource`."""
    if not name:
        usable = (account for account in accounts if not account.closed)
        first, *_ = (*usable, *accounts, Account(name="", endpoint=""))
        return first
    named_account = next((account for account in accounts if account.name == name), None)
    if named_account is None:
        usable_names = ", ".join(account.name for account in accounts if not account.closed) or "none"
        raise BadResource(f"{who} names account {name!r}, which does not exist", hint=f"known: {usable_names}")
    return named_account


def place_of(account: Account, url: str) -> RepositoryPlace:
    """Return the place of `url`, with the query of the account. Whether the account opens the place is checked at every
    opening."""
    above = next((prefix for prefix in account.prefixes if is_below(with_query(prefix, ""), url)), "")
    return RepositoryPlace(account=account.name, repository=with_query(url, query_of(above)) if above else url)


def find_refusal(spec: BackupSpec) -> str:
    """Return why a spec is contradictory or not allowed; empty: valid. The spec is refused in every home."""
    return (
        spec.expiry.contradiction()
        or spec.agents.template.forbidden()
        or foreign_query(spec.destination.endpoint, "spec.destination.endpoint")
    )


def foreign_query(url: str, field_name: str) -> str:
    """Return the error of a `url` with a query in a resource: only accounts say how a store is reached. Empty: no
    error."""
    if not query_of(url):
        return ""
    return (
        f"{field_name}: the part after ? belongs to the account, because the secrets of the account are sent there: "
        f"write {with_query(url, '')}, and put the rest into endpoint or opens of the account in accounts.yaml"
    )
