"""The accounts of a home: destinations of backups, and the secrets that open them. Secrets are read here and go to
processes through the environment; no secret is written, logged or shown.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from offsite.model.errors import AccountClosed, BadResource
from offsite.model.journal import warned
from offsite.model.machine import exposure
from offsite.operator.core.files import FolderLayout, read_text
from offsite.operator.decide.desired import Account, RepositoryPlace, folder_of, is_below
from offsite.operator.resources.model import Name, Strict, Text
from offsite.operator.resources.parse import load_documents
from offsite.repository.repository import Repository
from offsite.stores.open_store import open_store
from offsite.stores.store import Store
from offsite.stores.wrapped_store import TimedStore

_STORE_PREFIXES = ("AWS_", "GOOGLE_", "AZURE_")
"""Prefixes of variables that open stores. An account with any such variable inherits none: half of two keys opens
nothing."""
_OPENED_MAX = 512
"""Stores that are kept open: a resource may spell one store in any number of ways."""
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")


Namespaces = Annotated[tuple[Annotated[str, StringConstraints(max_length=63)], ...], Field(max_length=256)]
"""In Kubernetes: namespaces whose resources may use the account, cluster or identity. `*`: all."""
Entry = TypeVar("Entry")


class BoundName(Strict):
    """A cluster of `clusters.yaml` (Kubernetes only) or an identity, and in Kubernetes the namespaces whose resources
    may use it."""

    name: Name
    namespaces: Namespaces = ()


class AccountEntry(Strict):
    """One account of `accounts.yaml`."""

    name: Name
    endpoint: Text = ""
    """The repository: a folder, or a URL."""
    opens: Annotated[tuple[Text, ...], Field(max_length=64)] = ()
    """Further folders and URLs that resources may name, each with all places below. The part after `?` says how they
    are reached."""
    namespaces: Namespaces = ()
    service_accounts: Annotated[tuple[Name, ...], Field(max_length=64)] = ()
    """In Kubernetes: service accounts with cloud rights that agents with this account may use."""
    identities: Annotated[tuple[BoundName, ...], Field(max_length=256)] = ()
    """Identities of backups in the repositories of this account that resources of several Kubernetes clusters, or
    folders, share."""
    environment: Annotated[dict[Annotated[str, StringConstraints(max_length=80)], Text], Field(max_length=64)] = {}  # noqa: RUF012  # pydantic copies it
    """Variables that open the repository."""
    environment_file: Text = ""
    """A file with more variables, one `NAME=value` per line. A path relative to the folder."""


_ACCOUNTS = TypeAdapter(tuple[AccountEntry, ...])
_CLUSTERS = TypeAdapter(tuple[BoundName, ...])


def read_accounts(layout: FolderLayout) -> tuple[Account, ...]:
    """Return the accounts of a folder, the default one first; none if the file does not exist. Raises `BadResource`."""
    if not layout.accounts.exists():
        return ()
    _warn_if_readable(layout.accounts)
    fields = "name, endpoint, opens, namespaces, identities, serviceAccounts, environment, environmentFile"
    hint = f"write a list of accounts: {fields}"
    return tuple(_account(entry, layout.root) for entry in _entries(layout.accounts, _ACCOUNTS, hint))


def read_clusters(path: Path) -> Mapping[str, tuple[str, ...]]:
    """Return the namespaces of every cluster that names any; empty if the file does not exist. Raises `BadResource`."""
    entries = _entries(path, _CLUSTERS, "write a list of clusters: name, namespaces") if path.exists() else ()
    return {entry.name: entry.namespaces for entry in reversed(entries) if entry.namespaces}


def _entries(path: Path, model: TypeAdapter[tuple[Entry, ...]], hint: str) -> tuple[Entry, ...]:
    (document, *_) = load_documents(read_text(path), source=path.name)
    try:
        return model.validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BadResource(f"{path.name}: {where}: {first['msg']}", hint=hint) from None  # the cause shows values


def variables_of(account: Account | None, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that works with `account`."""
    variables = dict(account.environment) if account is not None else {}
    if any(name.startswith(_STORE_PREFIXES) for name in variables):
        inherited = {name: value for name, value in inherited.items() if not name.startswith(_STORE_PREFIXES)}
    return {**inherited, **variables}


def select_store_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that open stores."""
    return {name: value for name, value in environment.items() if name.startswith(_STORE_PREFIXES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """The accounts in one round, and their opened stores. `opened` is kept from round to round. `before` is called
    before every request."""

    listed: Sequence[Account] = field(repr=False)
    inherited: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    opened: dict[tuple[RepositoryPlace, tuple[tuple[str, str], ...]], Store] = field(default_factory=dict, repr=False)
    before: Callable[[], None] = lambda: None

    def open_store(self, place: RepositoryPlace) -> Store:
        """Open an existing repository. The store waits less for answers than a copy does, because all other resources
        wait meanwhile. Raises `BadResource`, `BadRepositoryUrl`, `RepositoryNotFound`, and the errors of the store and
        of `before`."""
        account = self.account(place)
        key = (place, account.environment if account is not None else ())
        if (opened_store := self.opened.get(key)) is None:
            opened_store = open_store(place.repository, environment=variables_of(account, self.inherited)).impatient
            self.before()
            Repository.open(opened_store)
            if len(self.opened) >= _OPENED_MAX:
                self.opened.clear()
            self.opened[key] = opened_store
        return TimedStore(opened_store, lambda *_: None, before=self.before)

    def account(self, place: RepositoryPlace) -> Account | None:
        """Return the account whose secrets go to `place`; None if the place needs no secrets, like a folder. Only here
        an account and a place come together, from any source. Raises `AccountClosed`, and `BadResource` for a deleted
        account, or an account without access to the place."""
        if not place.account:
            of_others = any(_opens(account, place.repository) for account in self.listed if account.closed)
            if of_others or folder_of(place.repository) is None:
                hint = f'add an account to accounts.yaml: [{{name: main, opens: ["{place.repository}"]}}]'
                raise BadResource(f"{place.repository} needs an account", hint=hint)
            return None
        match = next((account for account in self.listed if account.name == place.account), None)
        if match is None:
            usable_names = ", ".join(account.name for account in self.listed if not account.closed) or "none"
            raise BadResource(f"account {place.account!r} no longer exists", hint=f"known: {usable_names}")
        if match.closed:
            raise AccountClosed(f"account {match.name} {match.closed}")
        if not _opens(match, place.repository):
            line = f"opens: {json.dumps([*match.opens, place.repository])}"
            raise BadResource(
                f"account {match.name} does not open {place.repository}",
                hint=f"if its secrets may be sent there, write into account {match.name} in accounts.yaml: {line}",
            )
        return match


def _opens(account: Account, url: str) -> bool:
    return any(is_below(_real(prefix), _real(url)) for prefix in account.prefixes)


def _real(url: str) -> str:
    """Return a folder with all links resolved. Raises `BadResource`."""
    if (folder := folder_of(url)) is None:
        return url
    try:
        return os.path.realpath(Path(folder).expanduser())
    except (RuntimeError, ValueError) as error:  # the user does not exist, or the path has a NUL
        raise BadResource(f"{url!r} is not a folder: {error}", hint="write the folder in full") from error


def _account(entry: AccountEntry, root: Path) -> Account:
    of_file = _read_environment(root / entry.environment_file) if entry.environment_file else {}
    variables = {**of_file, **entry.environment}
    return Account(
        name=entry.name,
        endpoint=entry.endpoint,
        environment=tuple(sorted(variables.items())),
        opens=entry.opens,
        namespaces=entry.namespaces,
        service_accounts=entry.service_accounts,
        identities={identity.name: identity.namespaces for identity in entry.identities},
    )


def _read_environment(path: Path) -> dict[str, str]:
    """Read a file in systemd's form: one variable per line, optionally quoted. Errors never show a line: a line holds a
    secret."""
    _warn_if_readable(path)
    variables: dict[str, str] = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith(("#", ";")):
            continue
        if (parts := _LINE.fullmatch(line)) is None:
            raise BadResource(f"{path.name}: line {number} is not NAME=value", hint="write one variable in each line")
        value = parts[2].strip()
        is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        variables[parts[1]] = value[1:-1] if is_quoted else value
    return variables


_warned: set[Path] = set()


def _warn_if_readable(path: Path) -> None:
    """Warn once per process."""
    try:
        why = exposure(path.stat())
    except OSError:
        return  # the reader of the file reports the error
    if why and path not in _warned:
        _warned.add(path)
        warned("readable_by_others", why=f"it may contain secrets, and {why} {path.name}", file=path)
