"""The client of cloud stores, `obstore`, at its edges: its errors as errors of offsite, and its credentials among the
settings, with their way to the process that unpickles a store.

The text of an error is cut before the server's answer, because the answer may hold key ids.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from offsite.model.errors import (
    ObjectArchived,
    OffsiteError,
    SecretStays,
    StoreDenied,
    StoreUnavailable,
    StoreUnreachable,
    UnlistableName,
)
from offsite.model.secret import SecretHandling, secret_handling
from offsite.stores.store import store_wait

_DENIED = re.compile(r"status code: 40[13]\b")  # a refused listing comes as a general error

_ARCHIVED = "InvalidObjectState"
"""S3's code for an object in GLACIER or DEEP_ARCHIVE, with a 403."""
_UNLISTABLE = re.compile(r'invalid path: .*?\bPath "(?P<key>.*)"(?: contained|: )')
"""The client's text about an unlistable name; `key` is the key in the bucket."""

_UNKNOWN = re.compile(r"status code: 501\b|501 Not Implemented")

_SECRET = frozenset(
    {
        "aws_secret_access_key",
        "aws_session_token",
        "google_service_account_key",
        "azure_storage_account_key",
        "azure_storage_sas_key",
        "azure_storage_client_secret",
    }
)
_CREDENTIALS = _SECRET | {"aws_access_key_id", "azure_storage_client_id", "azure_storage_tenant_id"}
"""Settings taken from one place only: a key of the driver does not go with a secret of the executor."""


@contextmanager
def wrap_errors(action: str, place: str) -> Iterator[None]:
    """Turn the client's errors into `StoreDenied` or `StoreUnreachable`, with the failed `action` and the place."""
    try:
        yield
    except OffsiteError:
        raise
    except Exception as error:  # the client's errors have no common base
        raise store_error(action, place, error) from error


@contextmanager
def wrap_request(action: str, place: str) -> Iterator[None]:
    """`wrap_errors` around a request that the block waits for."""
    with wrap_errors(action, place), store_wait(action, place):
        yield


def store_error(action: str, place: str, error: Exception) -> StoreDenied | StoreUnavailable:
    from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

    reason = f"cannot {action} {place}: {first_line(error)}"
    if _ARCHIVED in str(error):
        return ObjectArchived(
            f"{reason.partition(': ')[0]}: a rule of the bucket has moved it to an archive, such as Glacier",
            hint="restore the object for some days (aws s3api restore-object), then run the command again; remove the "
            "rule from the prefix of the repository",
        )
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) or _DENIED.search(reason):
        return StoreDenied(reason, hint="check the credentials in the environment and their permissions on the bucket")
    if (unlistable := _UNLISTABLE.search(str(error))) is not None:
        return _unlistable(action, place, unlistable["key"])
    if isinstance(error, FileNotFoundError):
        return StoreUnreachable(reason, hint="check that the bucket or container exists")
    return StoreUnreachable(reason, hint="check the endpoint and the network, then run the command again")


def _unlistable(action: str, place: str, key: str) -> UnlistableName:
    url = urlsplit(place)
    way = "delete it with the tools of the store"
    if url.scheme == "s3":
        way = f"delete it: aws s3api delete-object --bucket {shlex.quote(url.netloc)} --key {shlex.quote(key)}"
    return UnlistableName(
        f"cannot {action} {place}: no client can list beyond object {key!r} of the bucket: a part of its name is "
        "empty or a single dot",
        hint=f"offsite never uses such names, and nothing is damaged: {way}; then run the command again",
    )


def is_taken(error: Exception) -> bool:
    """The key exists (412), or another put of the key is in progress (409)."""
    from obstore.exceptions import AlreadyExistsError, PreconditionError

    return isinstance(error, AlreadyExistsError | PreconditionError)


def is_unsupported(error: Exception) -> bool:
    """The client or the store does not know the request (501)."""
    from obstore.exceptions import NotSupportedError

    return isinstance(error, NotImplementedError | NotSupportedError) or bool(_UNKNOWN.search(str(error)))


def is_unclear(error: Exception) -> bool:
    """A timeout, a lost connection or a 5xx: the request may have had an effect, or none."""
    from obstore.exceptions import GenericError

    return isinstance(error, GenericError)


def first_line(error: Exception) -> str:
    text = str(error).split("\n", 1)[0].split("<?xml", 1)[0].strip().rstrip(":")
    return text or type(error).__name__


Options = tuple[tuple[str, str], ...]


def options_to_send(url: str, options: Options) -> tuple[Options, bool]:
    """Return the `options` to pickle for the store at `url`, and whether the receiver reads credentials from the
    environment. Raises `SecretStays`."""
    if not any(name in _SECRET for name, _ in options) or secret_handling() is SecretHandling.SENT:
        return options, False
    if secret_handling() is SecretHandling.READ_THERE:
        return tuple(option for option in options if option[0] not in _CREDENTIALS), True
    raise SecretStays(
        f"a task would send the credentials of {url} over a network that Spark does not encrypt",
        hint="enable spark.authenticate and spark.network.crypto.enabled, here and on the cluster; or let executors "
        "use their own environment or role: --secrets on-executors; or send them unencrypted: --secrets in-clear",
    )


def with_local_credentials(options: Options) -> Options:
    """Return the options with credentials from the environment of this process. Without credentials there, the client
    looks for the role of the machine."""
    credentials = ((name, os.environ.get(name.upper(), "")) for name in sorted(_CREDENTIALS))
    return tuple(sorted([*options, *(credential for credential in credentials if credential[1])]))
