"""Open a store, or the files of a foreign archive, from a folder or URL as a person writes it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from offsite.model.errors import BadRepositoryUrl, StoreInClear
from offsite.model.journal import warned
from offsite.model.machine import is_loopback
from offsite.model.untrusted.place import FILE, StoragePlace, parse_place
from offsite.stores.object_store import CloudStore
from offsite.stores.posix_store import PosixStore, open_folder
from offsite.stores.store import Store
from offsite.stores.wrapped_store import TimedStore

if TYPE_CHECKING:
    from offsite.stores.archive_files import ArchiveBucket, ArchiveFolder

_ENVIRONMENT = {
    "s3": (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_ENDPOINT_URL",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_ROLE_ARN",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    ),
    "gs": ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_APPLICATION_CREDENTIALS"),
    "az": (
        "AZURE_STORAGE_ACCOUNT_NAME",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_CLIENT_ID",
        "AZURE_STORAGE_CLIENT_SECRET",
        "AZURE_STORAGE_TENANT_ID",
    ),
    "memory": (),
}
"""Variables sent to the workers, which may lack them. Rights of a machine's own role are not among them."""

_QUERY = {
    "s3": {
        "endpoint": "aws_endpoint",
        "region": "aws_region",
        "virtual_hosted": "aws_virtual_hosted_style_request",
        "anonymous": "aws_skip_signature",
    },
    "gs": {"endpoint": "google_base_url", "anonymous": "google_skip_signature"},
    "az": {"endpoint": "azure_storage_endpoint", "account": "azure_storage_account_name"},
    "memory": {},
}
"""Settings allowed behind `?` in a URL. Secrets are not allowed, because URLs end up in logs and shell histories."""

_ENDPOINTS = ("aws_endpoint", "aws_endpoint_url", "google_base_url", "azure_storage_endpoint")
_READ_BY_CLIENT = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")  # from its own environment, where the URL names none
ALLOW_HTTP = "OFFSITE_ALLOW_HTTP"
"""A variable with the effect of `--allow-http`, where not empty."""
_ANONYMOUS = ("aws_skip_signature", "google_skip_signature")


def open_store(text: str, *, environment: Mapping[str, str] | None = None) -> PosixStore | CloudStore:
    """Open the store named by `text`: a folder, `file:///folder`, `s3://bucket/prefix?endpoint=…&region=…`, `gs://`,
    `az://`.

    Touches neither network nor disk. Raises `BadRepositoryUrl`; raises `StoreInClear` for an endpoint reached without
    TLS over a network, with credentials, unless `ALLOW_HTTP` is set in the process or in `environment`.
    """
    place = parse_place(text)
    if place.scheme == FILE:
        return _folder(place.path)
    return _cloud(place, os.environ if environment is None else environment)


def places_above(store: Store) -> Iterator[Store]:
    """Yield the folders above a folder, or the prefixes above a prefix of a bucket, the nearest first. For a folder,
    links are resolved first."""
    if isinstance(store, TimedStore):
        yield from places_above(store.inner)
    elif isinstance(store, PosixStore):
        yield from map(open_folder, Path(os.path.realpath(store.root)).parents)
    elif isinstance(store, CloudStore):
        place = parse_place(store.url)
        names = place.path.split("/") if place.path else []
        for depth in reversed(range(len(names))):
            yield replace(store, url=replace(place, path="/".join(names[:depth])).url)


def _refuse_if_overheard(scheme: str, options: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Refuse plain http over a network. Signatures do not reveal a key, but session tokens, shared access signatures
    and records are readable."""
    of_environment = _READ_BY_CLIENT if scheme == "s3" else ()
    endpoints = [*(options.get(name) for name in _ENDPOINTS), *(environment.get(name) for name in of_environment)]
    is_anonymous = any(options.get(name, "").lower() == "true" for name in _ANONYMOUS)
    host = _plain_http_host(next(filter(None, endpoints), ""))
    if host and not is_anonymous and not is_loopback(host):
        why = "records and credentials cross the network unencrypted: use an https endpoint"
        if not (environment.get(ALLOW_HTTP) or os.environ.get(ALLOW_HTTP)):
            raise StoreInClear(
                f"the store at {host} would be used with http: {why}",
                hint=f"if you trust that network completely: --allow-http, or {ALLOW_HTTP}=1",
            )
        warned("unencrypted", why=why, host=host)


def _plain_http_host(endpoint: str) -> str:
    try:
        parts = urlsplit(endpoint)
        return (parts.hostname or "") if parts.scheme.lower() == "http" else ""
    except ValueError:  # no URL: the client reports the error
        return ""


def _folder(path: str) -> PosixStore:
    try:
        return open_folder(Path(path).expanduser())
    except (RuntimeError, FileNotFoundError) as error:  # no such user, no home, or a deleted working folder
        raise BadRepositoryUrl(f"{path!r}: {error}", hint="write the folder in full, or set HOME") from error


def _cloud(place: StoragePlace, environment: Mapping[str, str]) -> CloudStore:
    options = {name.lower(): environment[name] for name in _ENVIRONMENT[place.scheme] if environment.get(name)}
    client_options = _QUERY[place.scheme]
    for name, value in place.settings:
        if name not in client_options or not value:
            allowed = ", ".join(sorted(client_options)) or "nothing"
            raise BadRepositoryUrl(f"{name!r} cannot be set in a {place.scheme} URL", hint=f"allowed: {allowed}")
        options[client_options[name]] = value
    _refuse_if_overheard(place.scheme, options, environment)
    return CloudStore(url=place.url, options=tuple(sorted(options.items())))


def open_archive_files(place: str) -> ArchiveFolder | ArchiveBucket:
    """Open the files of a foreign archive at `place`: a folder or a URL, by the rules of `open_store`.

    Touches neither network nor disk. Raises `BadRepositoryUrl`.
    """
    from offsite.stores.archive_files import ArchiveBucket, ArchiveFolder

    store = open_store(place)
    return ArchiveBucket(store=store) if isinstance(store, CloudStore) else ArchiveFolder(root=store.root)
