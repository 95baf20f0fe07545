"""The mechanism `AWS_MSK_IAM`: one message, signed by the credentials of an AWS identity (Signature Version 4); and the
tokens that Amazon MSK takes by `OAUTHBEARER`: a URL that is signed in the same way.

The signature of a message is kafka-python's, that of a token botocore's. The credentials are found by botocore in the
calling process: in variables, profiles, the web identity of a pod, the metadata of an instance. Credentials that end
are renewed by botocore before they do. Each login signs anew: a signature is good for 15 minutes.

Two things could wait for ever: the program of a profile (`credential_process`), and a profile that asks a person for a
code (`mfa_serial`). The program has a limit, and the question is refused.
"""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from math import inf
from socket import gethostname
from time import monotonic
from typing import Any, NoReturn

from offsite.kafka.aws_login import MECHANISM, AwsLogin, region_of
from offsite.model.errors import BadKafkaConfig, KafkaAuthenticationFailed, OffsiteError, TokenEndpointUnavailable

_STS_TIMEOUT_S = 4  # with one more attempt, a wrong login is told within ten seconds
_PROGRAM_LIMIT_S = 30.0  # as for the command of a token
_CREDENTIALS_MAX = 8  # identities of one process
_CREDENTIALS_HINT = (
    "set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY there, or run as a role; workers of a Spark "
    "cluster need credentials of their own"
)
_TOKEN_LIFETIME_S = 900  # what Amazon's own clients ask for
REFUSED_HINT = "check that this AWS identity may kafka-cluster:Connect to the cluster, and the clock of this machine"

_lock = threading.Lock()
_renewing: dict[AwsLogin, Any] = {}
_hung: dict[tuple[str, ...], float] = {}  # programs that did not end, and when each may be started again


class MskIam:
    """The client's side, in the shape of kafka-python's mechanisms."""

    def __init__(self, login: AwsLogin, host: str) -> None:
        self._login, self._host = login, host
        self._is_done = False

    def auth_bytes(self) -> bytes:
        """The signed message. Raises `KafkaAuthenticationFailed` without credentials, `BadKafkaConfig` without
        botocore or region."""
        from kafka.net.sasl.msk import AwsMskIamClient  # type: ignore[import-untyped]

        credentials, region = _credentials(self._login), _region(self._login, self._host)
        client = AwsMskIamClient(
            self._host, credentials.access_key, credentials.secret_key, region, token=credentials.token
        )
        message: bytes = client.first_message()
        return message

    def receive(self, answer: bytes) -> None:
        if not answer:
            raise ValueError("it is empty")
        self._is_done = True

    def is_done(self) -> bool:
        return self._is_done


def signed_token(login: AwsLogin, host: str) -> str:
    """A token for `OAUTHBEARER`, as aws-msk-iam-auth makes it. Raises as `MskIam.auth_bytes`."""
    credentials, region = _credentials(login), _region(login, host)
    from botocore.auth import SigV4QueryAuth  # type: ignore[import-untyped]
    from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]

    url = f"https://kafka.{region}.amazonaws.com/"
    request = AWSRequest("GET", url, params={"Action": "kafka-cluster:Connect"})
    SigV4QueryAuth(credentials, "kafka-cluster", region, expires=_TOKEN_LIFETIME_S).add_auth(request)
    return base64.urlsafe_b64encode(f"{request.url}&User-Agent=offsite".encode()).decode().rstrip("=")


def _credentials(login: AwsLogin) -> Any:  # noqa: ANN401  (botocore has no types)
    """Access key, secret key and session token, of one moment."""
    try:
        with _lock:
            source = _renewing.get(login) or _source(login)
        return source.get_frozen_credentials()
    except OffsiteError:
        raise
    except subprocess.TimeoutExpired as error:
        raise TokenEndpointUnavailable(
            f"{MECHANISM}: AWS gives no credentials on {gethostname()}: the program {error.cmd[0]} has not ended "
            f"within {_PROGRAM_LIMIT_S:g} s",
            hint="run it yourself: it is the credential_process of the AWS profile, and nobody is there to answer it",
        ) from None
    except Exception as error:  # noqa: BLE001  # whatever a file, a program or a service does to botocore
        why = f"{MECHANISM}: AWS gives no credentials on {gethostname()}: {_why(error)}"
        if _may_pass(error):
            raise TokenEndpointUnavailable(why, hint="check the network, and the STS of AWS") from None
        raise KafkaAuthenticationFailed(why, hint=_CREDENTIALS_HINT) from None


def _source(login: AwsLogin) -> Any:  # noqa: ANN401
    """What gives credentials. Kept for later logins if it renews them, else read again by each login."""
    from botocore.credentials import RefreshableCredentials  # type: ignore[import-untyped]

    session = _session(login)
    source = session.get_credentials()
    if source is None:
        raise KafkaAuthenticationFailed(
            f"{MECHANISM}: there are no AWS credentials on {gethostname()}", hint=_CREDENTIALS_HINT
        )
    if login.role_arn:
        source = _of_role(session, login, source)
    if isinstance(source, RefreshableCredentials) and len(_renewing) < _CREDENTIALS_MAX:
        _renewing[login] = source
    return source


def _of_role(session: Any, login: AwsLogin, source: Any) -> Any:  # noqa: ANN401
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials

    def client(service: str, **arguments: Any) -> Any:  # noqa: ANN401
        region = login.sts_region or _session_region(session) or "us-east-1"
        return session.create_client(service, **{**arguments, "region_name": region})

    more = {"RoleSessionName": login.session_name} | ({"ExternalId": login.external_id} if login.external_id else {})
    fetcher = AssumeRoleCredentialFetcher(client, source, login.role_arn, extra_args=more)
    return DeferredRefreshableCredentials(fetcher.fetch_credentials, method="assume-role")


def _region(login: AwsLogin, host: str) -> str:
    region = region_of(host) or _session_region(_session(login))
    if not region:
        raise BadKafkaConfig(
            f"{MECHANISM}: the name of {host} has no AWS region, and none is set",
            hint="name the brokers as MSK does (….kafka.REGION.amazonaws.com), or set AWS_REGION",
        )
    return region


def _session_region(session: Any) -> str:  # noqa: ANN401
    return os.environ.get("AWS_REGION") or session.get_config_variable("region") or ""


def _session(login: AwsLogin) -> Any:  # noqa: ANN401
    try:
        from botocore.session import Session  # type: ignore[import-untyped]
    except ImportError:
        raise BadKafkaConfig(f"{MECHANISM} needs botocore", hint="pip install 'offsite[msk]'") from None
    from botocore.config import Config  # type: ignore[import-untyped]

    session = Session(profile=login.profile or None)
    limits = Config(connect_timeout=_STS_TIMEOUT_S, read_timeout=_STS_TIMEOUT_S, retries={"total_max_attempts": 2})
    session.set_default_client_config(limits)  # else a role of a profile or of a pod waits for minutes
    _limit_waiting(session)
    return session


def _limit_waiting(session: Any) -> None:  # noqa: ANN401
    """Limit what would wait for ever. botocore's session takes neither a limit nor an answer, so its providers get
    them."""
    from botocore.credentials import AssumeRoleProvider, ProcessProvider

    def process_provider(profile: str) -> ProcessProvider:
        return ProcessProvider(profile, lambda: session.full_config, popen=_started)

    for provider in session.get_component("credential_provider").providers:
        if isinstance(provider, ProcessProvider):
            provider._popen = _started  # noqa: SLF001
        elif isinstance(provider, AssumeRoleProvider):
            provider._prompter = _refuse_to_ask  # noqa: SLF001
            provider._profile_provider_builder._create_process_provider = process_provider  # noqa: SLF001


class _Program(subprocess.Popen[bytes]):
    """A program of an AWS profile, which is killed at its limit."""

    def communicate(self, input: bytes | None = None, timeout: float | None = None) -> tuple[bytes, bytes]:  # noqa: A002
        limit_s = _PROGRAM_LIMIT_S if timeout is None else timeout
        try:
            return super().communicate(input, timeout=limit_s)
        except subprocess.TimeoutExpired:
            _hung[tuple(self.args)] = monotonic() + limit_s  # type: ignore[arg-type]
            with self, suppress(ProcessLookupError):  # closes its pipes, and waits for its end
                self.kill()
            raise


def _started(command: list[str], *, stdout: int, stderr: int) -> _Program:
    """Start a program of an AWS profile, but repeat the failure of one that hung shortly before: each of many
    connections would wait for it."""
    if monotonic() < _hung.get(tuple(command), -inf):
        raise subprocess.TimeoutExpired(command, _PROGRAM_LIMIT_S)
    return _Program(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)


def _refuse_to_ask(_: str) -> NoReturn:
    raise KafkaAuthenticationFailed(
        f"{MECHANISM}: the AWS profile asks a person for a code (mfa_serial), and a run has nobody to ask",
        hint="get credentials of a session first (aws sts get-session-token), and name the profile that has them",
    )


def _may_pass(error: Exception) -> bool:
    """Whether the service of AWS was not reached, or is busy: no reason to end a run of days."""
    from botocore import exceptions  # type: ignore[import-untyped]

    status = _answer(error).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    is_busy = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS
    return (
        is_busy
        or "Throttl" in _why(error)
        or isinstance(error, exceptions.ConnectionError | exceptions.HTTPClientError)
    )


def _why(error: Exception) -> str:
    """The kind of error alone: messages of STS may hold parts of credentials."""
    return str(_answer(error).get("Error", {}).get("Code", type(error).__name__))


def _answer(error: Exception) -> Mapping[str, Any]:
    answer = getattr(error, "response", None)
    return answer if isinstance(answer, dict) else {}
