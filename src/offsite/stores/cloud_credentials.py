"""Credentials among the settings of a cloud store, and their way to the process that unpickles the store."""

from __future__ import annotations

import os

from offsite.model.errors import SecretStays
from offsite.model.secret import Travel, way_of_secrets

Options = tuple[tuple[str, str], ...]

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
_TOGETHER = _SECRET | {"aws_access_key_id", "azure_storage_client_id", "azure_storage_tenant_id"}
"""Settings taken from one place only: a key of the driver does not go with a secret of the executor."""


def options_to_send(url: str, options: Options) -> tuple[Options, bool]:
    """Return the `options` to pickle for the store at `url`, and whether the receiver reads credentials from the
    environment. Raises `SecretStays`."""
    if not any(name in _SECRET for name, _ in options) or way_of_secrets() is Travel.SENT:
        return options, False
    if way_of_secrets() is Travel.READ_THERE:
        return tuple(each for each in options if each[0] not in _TOGETHER), True
    raise SecretStays(
        f"a task would carry the credentials of {url} over a network that Spark does not encrypt",
        hint="switch on spark.authenticate and spark.network.crypto.enabled, here and on the cluster; or let executors"
        " take them from their own environment or role: --secrets on-executors; or send them readable:"
        " --secrets in-clear",
    )


def with_credentials_of_here(options: Options) -> Options:
    """Return the options with credentials from the environment of this process. Without credentials there, the client
    looks for the role of the machine."""
    found = ((name, os.environ.get(name.upper(), "")) for name in sorted(_TOGETHER))
    return tuple(sorted([*options, *(each for each in found if each[1])]))
