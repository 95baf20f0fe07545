"""HTTP to a management API: a request, a bounded answer, in bounded time. The server is not trusted.

Nothing is followed: no redirect (it would carry our identity to another place), and no proxy of the environment.
Nothing is repeated here: the caller knows which requests may be repeated.

Answers are parsed strictly: an answer may be another server's, cut, or hostile. The shape follows Zeebe's published
`backup-management-api.yaml`, and real brokers where the file is silent: the exporting endpoint also says 200 after
a failure, with the true status in its body.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import SHUT_RDWR, socket

from offsite.checkpoint.zeebe.address import ZeebeCluster
from offsite.model.units import MIB
from offsite.model.untrusted.bounded_json import UNAMBIGUOUS, BadJson, parse_json
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.model.untrusted.text import printable

REQUEST_TIMEOUT_S = 18.0
"""Seconds for a request, from the connection to the last byte of the answer: gateways give up on brokers after 15."""
MAX_ANSWER_BYTES = 8 * MIB
"""A status takes 300 bytes for every partition; a list of 100 backups of 100 partitions takes 2 MB."""
MAX_PARTITIONS = 10_000
"""Zeebe numbers partitions with 13 bits."""
_MAX_PARTITION_ID = (1 << 31) - 1
_MESSAGE_MAX = 500
"""Characters shown of foreign messages."""


class ZeebeOutcomeUnknown(Exception):
    """The outcome of a request is unknown: the request may have been carried out, and may be sent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeebeAnswer:
    status: int
    body: bytes


class ZeebeClient:
    """Asks a cluster. Every request has a connection of its own: requests are rare, and gateways restart."""

    def __init__(
        self,
        cluster: ZeebeCluster,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self._cluster, self._timeout_s, self._max_bytes = cluster, timeout_s, max_answer_bytes

    @property
    def where(self) -> str:
        """The address for people, without secrets."""
        return str(self._cluster.address)

    def ask(self, method: str, path: str, body: Mapping[str, int] | None = None) -> ZeebeAnswer:
        """The whole answer to a request below `/actuator`. Raises `ZeebeOutcomeUnknown`."""
        connection = self._connection()
        try:
            return self._ask(connection, method, f"{self._cluster.address.path}/actuator/{path}", body)
        except (OSError, HTTPException, ValueError) as error:
            raise ZeebeOutcomeUnknown(f"{self.where} does not answer: {_why(error)}") from error
        finally:
            connection.close()

    def _connection(self) -> HTTPConnection:
        at = self._cluster.address
        if at.is_tls:
            return HTTPSConnection(at.host, at.port, timeout=self._timeout_s, context=ssl.create_default_context())
        return HTTPConnection(at.host, at.port, timeout=self._timeout_s)

    def _ask(self, connection: HTTPConnection, method: str, path: str, body: Mapping[str, int] | None) -> ZeebeAnswer:
        connection.connect()
        # A server that answers byte by byte would never time out.
        limit = threading.Timer(self._timeout_s, _hang_up, [connection.sock])
        limit.daemon = True
        limit.start()
        try:
            connection.request(method, path, None if body is None else json.dumps(body).encode(), self._headers(body))
            return self._read(connection.getresponse())
        finally:
            limit.cancel()

    def _headers(self, body: Mapping[str, int] | None) -> dict[str, str]:
        headers = {"Accept": "application/json", "Connection": "close", "User-Agent": "offsite"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._cluster.authorization:
            headers["Authorization"] = self._cluster.authorization
        return headers

    def _read(self, response: HTTPResponse) -> ZeebeAnswer:
        body = response.read(self._max_bytes + 1)
        if len(body) > self._max_bytes:
            raise ZeebeOutcomeUnknown(f"{self.where} answers with more than {self._max_bytes} bytes")
        if response.length:
            raise ZeebeOutcomeUnknown(f"{self.where} ended its answer too early")
        return ZeebeAnswer(status=response.status, body=body)


def _hang_up(connected: socket) -> None:
    with suppress(OSError):
        connected.shutdown(SHUT_RDWR)


def _why(error: Exception) -> str:
    """The text of the operating system about an error, never text of the server."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "it takes too long" if isinstance(error, TimeoutError) else type(error).__name__


class ZeebeBackupState(StrEnum):
    DOES_NOT_EXIST = "DOES_NOT_EXIST"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    INCOMPLETE = "INCOMPLETE"
    """Some partitions have the backup, and some do not."""
    INCOMPATIBLE = "INCOMPATIBLE"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeebeBackup:
    """Zeebe's knowledge of an id. `created_ms`: the earliest beginning of a partition (Zeebe's clock, epoch ms), -1
    where unknown. `missing`: the partitions without the backup."""

    id: int
    state: ZeebeBackupState
    failure_reason: str = ""
    created_ms: int = -1
    missing: tuple[int, ...] = ()


def parse_backup(answer: ZeebeAnswer, backup_id: int) -> ZeebeBackup:
    """Parse the status of backup `backup_id`. Raises `ZeebeOutcomeUnknown` for an answer that is no status, belongs to
    another backup, or contradicts itself."""
    return _backup(_object(answer), backup_id)


def parse_highest(answer: ZeebeAnswer) -> int:
    """Parse the highest id in a list of backups, 0 in an empty list. Raises `ZeebeOutcomeUnknown`."""
    backups = _json(answer)
    if not isinstance(backups, list):
        raise ZeebeOutcomeUnknown("its answer is not a list of backups")
    return max((_member(backup).integer("backupId", least=0) for backup in backups), default=0)


def is_no_route(answer: ZeebeAnswer) -> bool:
    """Whether a 404 means a missing endpoint rather than a missing backup: Zeebe's own errors have only a `message`,
    errors of the server below have a `status` or a `path`."""
    if answer.status != 404:
        return False
    try:
        fields = _object(answer).fields
    except ZeebeOutcomeUnknown:
        return True
    return not isinstance(fields.get("message"), str) or bool({"status", "path", "type"} & fields.keys())


def message_of(answer: ZeebeAnswer) -> str:
    """The message of an error for people: a line, cut, and empty without a message."""
    try:
        return _message(_object(answer).fields)
    except ZeebeOutcomeUnknown:
        return ""


def why_not_exporting(answer: ZeebeAnswer) -> str:
    """Why exporting was not paused or resumed; empty on success. Some versions use the status code of the answer, some
    say 200 in any case and put the code into the body. Raises `ZeebeOutcomeUnknown` for an answer with neither."""
    if answer.status == 204:
        return ""
    if answer.status != 200:
        return f"it answers {answer.status} {message_of(answer)}".rstrip()
    said = _object(answer)
    status = said.integer("status", least=100, most=599)
    if 200 <= status < 300:
        return ""
    body = said.fields.get("body")
    return f"it answers {status} {_message(body) if isinstance(body, Mapping) else ''}".rstrip()


def _backup(said: JsonObject, backup_id: int) -> ZeebeBackup:
    if said.integer("backupId") != backup_id:
        raise ZeebeOutcomeUnknown("it answers with another backup than requested")
    state, details = _state(said), said.children("details")
    if len(details) > MAX_PARTITIONS:
        raise ZeebeOutcomeUnknown(f"it names {len(details)} partitions")
    states = {detail.integer("partitionId", least=1, most=_MAX_PARTITION_ID): _state(detail) for detail in details}
    if len(states) < len(details):
        raise ZeebeOutcomeUnknown("it names a partition twice")
    if state is ZeebeBackupState.COMPLETED and set(states.values()) != {ZeebeBackupState.COMPLETED}:
        raise ZeebeOutcomeUnknown("it reports a backup as complete, although a partition is not")
    created = [at for detail in details if (at := _epoch_ms(detail)) >= 0]
    return ZeebeBackup(
        id=backup_id,
        state=state,
        failure_reason=_shown(said.optional_text("failureReason") or ""),
        created_ms=min(created, default=-1),
        missing=tuple(
            sorted(
                partition
                for partition, partition_state in states.items()
                if partition_state is ZeebeBackupState.DOES_NOT_EXIST
            )
        ),
    )


def _state(said: JsonObject) -> ZeebeBackupState:
    text = said.text("state")
    try:
        return ZeebeBackupState(text)
    except ValueError:
        raise ZeebeOutcomeUnknown(f"it reports an unknown state {_shown(text)!r}") from None


def _epoch_ms(said: JsonObject) -> int:
    """Parse RFC 3339 with up to nine fractional digits, of which Python reads six."""
    text = said.optional_text("createdAt")
    if text is None:
        return -1
    try:
        at = datetime.fromisoformat(text)
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ZeebeOutcomeUnknown("it reports an invalid time") from None


def _object(answer: ZeebeAnswer) -> JsonObject:
    return _member(_json(answer))


def _member(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise ZeebeOutcomeUnknown("its answer is not a JSON object")
    return JsonObject(fields=value, damaged=ZeebeOutcomeUnknown)


def _json(answer: ZeebeAnswer) -> JsonValue:
    try:
        value: JsonValue = parse_json(answer.body, decoder=UNAMBIGUOUS)  # type: ignore[assignment]  # JSON is that
    except BadJson as error:
        raise ZeebeOutcomeUnknown(f"its answer cannot be read: {error}") from error
    return value


def _message(fields: Mapping[str, JsonValue]) -> str:
    said = fields.get("message") or fields.get("detail") or fields.get("title")
    return _shown(said) if isinstance(said, str) else ""


def _shown(text: str) -> str:
    cut = text if len(text) <= _MESSAGE_MAX else f"{text[:_MESSAGE_MAX]}…"
    return printable(cut.strip())
