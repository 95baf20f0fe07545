"""The inputs of the operator's pod: rules, accounts, clusters, and a store shared by operators. Jobs (restores,
checkpoints, drills, expiry) run in this pod."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from offsite.model.clock import Clock
from offsite.model.errors import BadResource, StoreUnreachable
from offsite.operator.core.accounts import Accounts, read_accounts, read_clusters, variables_of
from offsite.operator.core.all_keepers import SharedState
from offsite.operator.core.files import FolderLayout
from offsite.operator.core.processes import OFFSITE, Launches
from offsite.operator.decide.desired import Account, DesiredAgents, RepositoryPlace
from offsite.operator.decide.queue import QueueRules
from offsite.stores.open_store import open_store
from offsite.stores.store import Store

LOOK_MAX_S = 300.0
"""Time limit of one reconciliation, because all other resources wait: a store of the owner of a resource may answer
slowly on purpose, or for ever."""
CLUSTERS = "clusters.yaml"
"""Beside the accounts: the namespaces whose resources may use each of the operator's clusters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeRules:
    """The settings of the operator. `namespaces`: watched namespaces, none: all. `accounts`: the accounts file, with
    the cluster files in the same folder. `folder`: folder of the process, for its expiry jobs. `state`: the store
    shared by all operators of the resources; empty: the folder. `image`: default image of agents. `images`: further
    images for resources. `metadata`: names of labels and annotations that a resource may give to its pods.
    `jobs_at_once`: restores, checkpoints and drills in this pod at a time (every job has a separate Spark)."""

    accounts: Path
    folder: Path
    image: str
    images: Sequence[str] = ()
    metadata: Sequence[str] = ()
    namespaces: Sequence[str] = ()
    state: str = ""
    initial_copies: int = 1
    queue: QueueRules = field(default_factory=QueueRules)
    jobs_at_once: int = 1
    command: Sequence[str] = OFFSITE


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLayout(FolderLayout):
    """The accounts in a file of any name, and cluster files beside it: all may be keys of one Secret."""

    file: Path

    @property
    def accounts(self) -> Path:
        return self.file

    def cluster(self, name: str) -> Path:
        return self.root / f"{name}.properties"


class Pod:
    """Reads the accounts again for every reconciliation, and keeps opened stores."""

    def __init__(self, rules: HomeRules, *, clock: Clock) -> None:
        self._rules, self._clock = rules, clock
        self._layout = PodLayout(root=rules.accounts.parent, file=rules.accounts)
        self._accounts: Accounts | None = None
        self._store: Store | None = None
        self.shared: dict[str, SharedState] = {}
        """By namespace."""

    def open(self, namespace: str) -> tuple[Launches, SharedState]:
        """Return the means for resources of a `namespace`. Raises `BadResource` if the accounts cannot be read: their
        places never count as moved. Raises the errors of the shared store, until the store was opened once."""
        if not self._layout.accounts.exists():
            raise BadResource(
                f"there is no {self._layout.accounts.name}",
                hint="put it into the Secret offsite-configuration of the operator",
            )
        opened = self._accounts.opened if self._accounts is not None else {}
        visible_accounts = [self._for(namespace, account) for account in read_accounts(self._layout)]
        clusters = read_clusters(self._layout.root / CLUSTERS)
        accounts = self._accounts = Accounts(listed=visible_accounts, opened=opened, before=self._limit())
        if self._store is None:
            self._store = _opened(self._rules, accounts)
        if namespace not in self.shared:
            copies = self._rules.initial_copies
            self.shared[namespace] = SharedState.of(self._store, initial_copies=copies, namespace=namespace)

        def closed(cluster: str) -> str:
            bound = clusters.get(cluster, ())
            add = f"add {namespace} to the namespaces of {cluster} in {CLUSTERS}"
            line = add if bound else f"write into {CLUSTERS} {{name: {cluster}, namespaces: [{namespace}]}}"
            return self._closed(namespace, bound, line)

        launches = Launches(
            layout=self._layout,
            accounts=accounts,
            command=self._rules.command,
            allow=partial(_check_template, self._rules, accounts),
            closed=closed,
            agents_see_clusters=False,  # they find theirs in a Secret that the operator cannot read
        )
        return launches, self.shared[namespace]

    def _limit(self) -> Callable[[], None]:
        """Return a check that ends a reconciliation, started now, after the time limit."""
        began_s = self._clock.monotonic_s()

        def check_time() -> None:
            if self._clock.monotonic_s() - began_s > LOOK_MAX_S:
                raise StoreUnreachable(
                    f"its repository is too slow: one check took more than {LOOK_MAX_S / 60:.0f} minutes",
                    hint="other resources wait meanwhile; check its store and the network",
                )

        return check_time

    def _for(self, namespace: str, account: Account) -> Account:
        """Return the account as the resources of a namespace see the account."""
        bound = account.namespaces
        line = f"add {namespace} to its namespaces" if bound else f"write into it namespaces: [{namespace}]"
        identities = {name: of for name, of in account.identities.items() if not self._closed(namespace, of, "")}
        closed = self._closed(namespace, bound, f"{line} in accounts.yaml")
        return replace(account, closed=closed, identities=identities)

    def _closed(self, namespace: str, bound: Sequence[str], line: str) -> str:
        """Return why resources of a namespace may not use an object that is bound to namespaces; empty: they may. An
        object bound to no namespace is for the only watched namespace: an operator of several namespaces must bind
        every object."""
        looked_after = self._rules.namespaces
        bound = bound or (looked_after if len(looked_after) == 1 else ())
        if namespace in bound or "*" in bound:
            return ""
        return f"is not for namespace {namespace}; to allow it, {line}"


def _check_template(rules: HomeRules, accounts: Accounts, agents: DesiredAgents) -> None:
    """Check the choices of a resource for the pods of its agents. Raises `BadResource`."""
    template, images = agents.template, (rules.image, *rules.images)
    if foreign := template.images - {*images}:  # the image would run with the Secrets of its namespace
        raise BadResource(
            f"spec.agents.template: image {min(foreign)!r} is not allowed for agents; allowed: {', '.join(images)}",
            hint="remove it, or start the operator with --allow-image",
        )
    if names := {*template.metadata.labels, *template.metadata.annotations} - {*rules.metadata}:
        listed = ", ".join(rules.metadata) or "none"
        raise BadResource(
            f"spec.agents.template.metadata: {min(names)!r} is not allowed for pods of agents; allowed: {listed}",
            hint="remove it, or start the operator with --allow-metadata",
        )
    _check_service_account(template.spec.service_account_name, accounts, agents.place)


def _check_service_account(name: str, accounts: Accounts, place: RepositoryPlace) -> None:
    """Pods get the cloud rights of the service account: the account lists them, like its secrets."""
    account = accounts.account(place) if name else None
    if not name or (account is not None and name in account.service_accounts):
        return
    where = f"account {account.name}" if account is not None else "an account with this endpoint"
    raise BadResource(
        f"spec.agents.template.spec.serviceAccountName {name!r} is not allowed for agents",
        hint=f"remove it, or write into {where} in accounts.yaml: serviceAccounts: [{name}]",
    )


def _opened(rules: HomeRules, accounts: Accounts) -> Store:
    """Open the store shared by operators. Raises `BadRepositoryUrl`, and the errors of the store."""
    first = accounts.listed[0] if accounts.listed else None
    store = open_store(rules.state or str(rules.folder / "state"), environment=variables_of(first, os.environ))
    store.prepare()
    return store
