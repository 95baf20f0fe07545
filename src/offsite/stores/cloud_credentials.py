"""Credentials among the settings of a cloud store, and their way to the process that unpickles the store."""

from __future__ import annotations

import os

from offsite.model.errors import SecretStays
from offsite.model.secret import SecretHandling, secret_handling

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
_CREDENTIALS = _SECRET | {"aws_access_key_id", "azure_storage_client_id", "azure_storage_tenant_id"}
"""Settings taken from one place only: a key of the driver does not go with a secret of the executor."""


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
