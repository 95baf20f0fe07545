"""One blocking connection to one broker: TCP, TLS, SASL, framing. Knows no partitions and never retries.

Requests may be pipelined: every `send` is answered by one `receive`, in order. After any error the connection is closed
and must be discarded (`usable` is false); the caller handles a lost answer. An answer with a wrong correlation id, of a
wrong length, or with unreadable content is an error of the connection too: later answers would be no better.

A login may have an end (KIP-368). Before the end the connection logs in again, ahead of a request sent with nothing in
flight: a broker hangs up on the first request behind the end.
"""

from __future__ import annotations

import random
import socket
import struct
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Self, TypeVar

from offsite.kafka.config import BrokerAddress, KafkaConfig, SaslConfig
from offsite.kafka.net.broker_socket import (
    AHEAD_BYTES,
    MAX_RESPONSE_BYTES,
    TIMEOUT_HINT,
    ReadAhead,
    ReceiveBuffer,
    certificate_refusal,
    connected_socket,
)
from offsite.kafka.protocol.broker_errors import error_name
from offsite.kafka.protocol.request import Api, Request, api_name, release_of, request_header
from offsite.kafka.protocol.wire import UNREADABLE, Decoder, Encoder
from offsite.model.clock import Wait
from offsite.model.errors import (
    KafkaAuthenticationFailed,
    KafkaProtocolError,
    KafkaTimeout,
    KafkaTooOld,
    KafkaUnreachable,
    TokenEndpointUnavailable,
)
from offsite.model.units import KIB, MIB

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview

PROGRESS_BYTES = 1 * MIB
"""An answer must be whole `request.timeout.ms` after the first look. Every further `PROGRESS_BYTES` received extend the
time by as much: a slow line is no dead broker, a byte now and then is."""
_TIMEOUT_SLACK = 0.1  # accepted relative error of a socket's timeout: a new timeout costs a system call
_SIZE = struct.Struct(">i")
_CORRELATION_BYTES = 4
_MAX_CORRELATION = 2**31
_MIN_RESPONSE_BYTES = 4
_TLS_ALERT = b"\x15\x03"  # a TLS listener answers a plaintext client with an alert record
_SMALL_RESPONSE_BYTES = 64 * KIB
MAX_GREETING_BYTES = 1 * MIB
"""The largest answer taken before authentication: versions of a hundred APIs take 600 bytes, a round of a SASL
mechanism some kilobytes."""
LOGIN_AGAIN = (0.85, 0.95)
"""A connection logs in again between these parts of the session's lifetime, as Kafka's own client does: drawn by lot,
because connections that opened together would log in together."""
MAX_ANSWER_BYTES = 64 * MIB
"""The largest answer taken except records: metadata of a million partitions. As objects the answer takes ten times as
much memory."""


class Connection:
    """A connection to one broker, made by `Connection.open`. Not thread-safe."""

    def __init__(self, sock: socket.socket | ssl.SSLSocket, config: KafkaConfig, address: BrokerAddress) -> None:
        self.address = address
        self.usable = True
        self._sock = sock
        self._client_id = config.client_id
        self._timeout_s = config.request_timeout_ms / 1000
        self._set_timeout(self._timeout_s)
        self._gathers = config.tls is None  # SSL sockets have no sendmsg
        self._correlation = 0
        self._unanswered: deque[int] = deque()
        self._buffer = ReceiveBuffer(_SMALL_RESPONSE_BYTES)
        self._ahead = ReadAhead()
        self._head = memoryview(bytearray(_SIZE.size + _CORRELATION_BYTES))
        self._versions: dict[int, tuple[int, int]] = {}
        self._is_greeted = True
        self._sasl = config.sasl
        self._login_due_s = self._session_end_s = inf
        self._welcome = False  # a listener that wants SASL or TLS hangs up on the first real request

    @classmethod
    def open(cls, config: KafkaConfig, address: BrokerAddress) -> Self:
        """Connect, shake hands, authenticate. Raises `KafkaUnreachable`, `KafkaTimeout`, `KafkaAuthenticationFailed` or
        `BadKafkaConfig`; leaves nothing open after an error."""
        with Wait(lambda: f"{address} has not accepted a connection", since_s=monotonic()):
            sock = connected_socket(config, address)
        connection = cls(sock, config, address)
        connection._is_greeted = False
        try:
            connection._greet(config)
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def in_flight(self) -> int:
        """Number of requests sent and not yet answered."""
        return len(self._unanswered)

    @property
    def stale(self) -> bool:
        """Whether the broker has closed an idle connection (or sent something unasked), or will, as the session has
        ended. Does not block."""
        if len(self._ahead) or monotonic() >= self._session_end_s:
            return True
        try:
            self._sock.setblocking(False)
            return len(self._sock.recv(1)) >= 0
        except OSError as error:
            return not isinstance(error, BlockingIOError) and type(error).__name__ != "SSLWantReadError"
        finally:
            with suppress(OSError):
                self._set_timeout(self._timeout_s)

    @property
    def login_due(self) -> bool:
        """Whether the session ends soon. Whoever keeps requests in flight reads all answers first: then the next
        request waits for another login."""
        return monotonic() >= self._login_due_s

    def call(self, request: Request[T]) -> T:
        """Send one request and read the answer. Errors as for `send` and `receive`."""
        self.post(request)
        return self.collect(request)

    def post(self, request: Request[T]) -> None:
        """Send the request of a `call`: the first half, to ask several brokers at the same time."""
        self.check_version(request.api, request.version)
        self.send(request.api, request.version, [request.body], flexible=request.flexible)

    def collect(self, request: Request[T]) -> T:
        """Read the answer of a `call`: the second half. Answers come in the order of the posted requests."""
        return self._parse(request, self.receive())

    def send(self, api: int, version: int, parts: Sequence[Buffer], *, flexible: bool = False) -> None:
        """Send a request with the body `parts` back to back, without a join. The caller may reuse the parts
        afterwards. Raises the errors of `Connection.open` where a login is due."""
        if self._sasl is not None and not self._unanswered and self.login_due:
            self._log_in_again(self._sasl)
        self._correlation = (self._correlation + 1) % _MAX_CORRELATION
        header = request_header(api, version, self._correlation, self._client_id, flexible=flexible)
        size = len(header) + sum(map(len, parts))
        self._unanswered.append(self._correlation)
        try:
            self._allow(self._timeout_s)
            self._send_all([_SIZE.pack(size) + header, *parts], _SIZE.size + size)
        except OSError as error:
            raise self._lost(error) from error

    def receive(self, buffer: ReceiveBuffer | None = None) -> memoryview:
        """Return the next answer behind the correlation id, in `buffer` (or in the connection's own), valid until the
        next use of the buffer. Raises `KafkaTimeout` (see `PROGRESS_BYTES`), `KafkaUnreachable`,
        `KafkaProtocolError`."""
        began_s = monotonic()
        with Wait(self._silence, since_s=began_s):
            try:
                self._receive_exactly(self._head, began_s + self._timeout_s)
                size = self._checked_size(self._head, MAX_ANSWER_BYTES if buffer is None else MAX_RESPONSE_BYTES)
                view = self._receive_body(buffer or self._buffer, size - _CORRELATION_BYTES, began_s + self._timeout_s)
            except OSError as error:
                raise self._lost(error) from error
            except KafkaProtocolError:
                self.close()
                raise
            return view

    def highest_version(self, api: int, lowest: int, highest: int) -> int:
        """Return the highest version of `api` within `[lowest, highest]` on the broker. Raises `KafkaTooOld`, or
        `KafkaProtocolError` for a broker that dropped the versions."""
        floor, ceiling = self._versions.get(api, (0, -1))
        version = min(ceiling, highest)
        if version < max(floor, lowest):
            raise self._too_old(api, lowest) if ceiling < lowest else self._too_new(api, highest)
        return version

    def has_version(self, api: int, version: int) -> bool:
        floor, ceiling = self._versions.get(api, (0, -1))
        return floor <= version <= ceiling

    def check_version(self, api: int, version: int) -> None:
        """Check that the broker has the version. Raises as `highest_version` does. Before the greeting the check
        passes, because no versions are known."""
        if self._versions:
            self.highest_version(api, version, version)

    def close(self) -> None:
        self.usable = False
        with suppress(OSError):
            self._sock.close()

    def _greet(self, config: KafkaConfig) -> None:
        self._versions = self.call(_api_versions())
        if config.sasl is not None:
            self._log_in(config.sasl)
        self._is_greeted = True

    def _log_in(self, sasl: SaslConfig) -> None:
        from offsite.kafka.net.sasl import authenticate

        self._login_due_s = inf  # the login's own requests do not log in
        session = authenticate(sasl, self.call, host=self.address.host)
        lifetime_s = session.lifetime_s or inf
        self._login_due_s = session.began_s + random.uniform(*LOGIN_AGAIN) * lifetime_s  # noqa: S311  # no secret
        self._session_end_s = session.began_s + lifetime_s

    def _log_in_again(self, sasl: SaslConfig) -> None:
        end_s = self._session_end_s
        try:
            self._log_in(sasl)
        except TokenEndpointUnavailable:
            left_s = end_s - monotonic()
            if left_s <= 0:
                self.close()
                raise
            self._login_due_s = monotonic() + left_s / 2  # nothing was sent: the session goes on
        except BaseException:
            self.close()
            raise

    def _send_all(self, parts: list[Buffer], size: int) -> None:
        if not self._gathers:
            for part in parts:
                self._sock.sendall(part)
            return
        sent = self._sock.sendmsg(parts)  # type: ignore[arg-type]
        for part in parts if sent < size else ():
            if sent < len(part):
                self._sock.sendall(memoryview(part)[sent:])
            sent = max(0, sent - len(part))

    def _receive_body(self, buffer: ReceiveBuffer, size: int, deadline_s: float) -> memoryview:
        arrived = 0
        while arrived < size:
            room = buffer.room(arrived, size)
            deadline_s = self._receive_exactly(room, deadline_s, arrived)
            arrived += len(room)
        return buffer.taken(size)

    def _receive_exactly(self, view: memoryview, deadline_s: float, arrived: int = 0) -> float:
        """Fill `view` and return the deadline, extended by progress. `arrived`: bytes of the same answer received
        before."""
        receive, ahead, size = self._sock.recv_into, self._ahead, len(view)
        position, progress = ahead.take_into(view), PROGRESS_BYTES - arrived % PROGRESS_BYTES
        while position < size:
            self._allow(deadline_s - monotonic())
            remaining = view[position:]
            is_small = len(remaining) < AHEAD_BYTES
            if not (ahead.fill(receive) if is_small else (count := receive(remaining))):
                raise ConnectionResetError("the broker closed the connection")
            position += ahead.take_into(remaining) if is_small else count
            if position >= progress:
                progress, deadline_s = position + PROGRESS_BYTES, monotonic() + self._timeout_s
        return deadline_s

    def _allow(self, left_s: float) -> None:
        """Let the next socket call take about `left_s` seconds."""
        if left_s <= 0:
            raise TimeoutError
        if abs(left_s - self._set_s) > _TIMEOUT_SLACK * min(left_s, self._set_s):
            self._set_timeout(left_s)

    def _set_timeout(self, timeout_s: float) -> None:
        self._set_s = timeout_s
        self._sock.settimeout(timeout_s)

    def _checked_size(self, head: memoryview, most: int) -> int:
        size, correlation = struct.unpack(">ii", head)
        if bytes(head[:2]) == _TLS_ALERT:
            raise KafkaProtocolError(f"{self.address} speaks TLS", hint="use security.protocol=SSL or SASL_SSL")
        if size < _MIN_RESPONSE_BYTES or not self._unanswered or correlation != self._unanswered.popleft():
            raise KafkaProtocolError(
                f"{self.address} sent an answer that matches no request of offsite", hint=_GARBLED_HINT
            )
        if size - _CORRELATION_BYTES > (most := most if self._is_greeted else MAX_GREETING_BYTES):
            raise KafkaProtocolError(
                f"{self.address} announces an answer of {size} bytes, above the limit of {most}", hint=_GARBLED_HINT
            )
        return int(size)

    def _parse(self, request: Request[T], answer: memoryview) -> T:
        decoder = Decoder(answer, flexible=request.flexible)
        try:
            decoder.end()
            parsed = request.parse(decoder)
            decoder.end()
            decoder.done()
        except UNREADABLE as error:
            raise self._unreadable(request.api.name) from error
        self._welcome = request.api is not Api.API_VERSIONS
        return parsed

    def _silence(self) -> str:
        return f"{self.address} has not answered"

    def _unreadable(self, request_name: str) -> KafkaProtocolError:
        self.close()
        return KafkaProtocolError(f"{self.address} sent an unreadable answer to {request_name}", hint=_GARBLED_HINT)

    def _too_old(self, api: int, version: int) -> KafkaTooOld:
        needed = release_of(api, version)
        return KafkaTooOld(
            f"the broker at {self.address} has no {api_name(api)} (version {version}), which Kafka {needed} introduced",
            hint=f"use brokers with Kafka {needed} or newer",
        )

    def _too_new(self, api: int, version: int) -> KafkaProtocolError:
        return KafkaProtocolError(
            f"the broker at {self.address} no longer has {api_name(api)} in version {version}",
            hint="this Kafka is newer than this version of offsite supports: upgrade offsite",
        )

    def _alert(self) -> OSError | None:
        """What the broker said before it hung up, where a write has failed: the alert of TLS is still to be read."""
        try:
            self._sock.setblocking(False)
            self._sock.recv(1)
        except OSError as alert:
            return alert
        return None

    def _lost(self, error: OSError) -> KafkaTimeout | KafkaUnreachable | KafkaAuthenticationFailed:
        alert = None if self._welcome or self._gathers else self._alert()
        refusals = [refusal for failure in (error, alert) if (refusal := certificate_refusal(failure, self.address))]
        self.close()
        if refusals:
            return refusals[0]
        if isinstance(error, TimeoutError):
            return KafkaTimeout(f"{self.address} did not answer within {self._timeout_s:.0f} s", hint=TIMEOUT_HINT)
        hint = "" if self._welcome else "is security.protocol right for this listener?"
        return KafkaUnreachable(f"connection to {self.address} lost: {error}", hint=hint)


_GARBLED_HINT = (
    "check that the address is a Kafka broker and that no proxy changes its answers, then run the command again"
)


def _api_versions() -> Request[dict[int, tuple[int, int]]]:
    def read(answer: Decoder) -> dict[int, tuple[int, int]]:
        if code := answer.i16():
            raise KafkaProtocolError(f"ApiVersions: {error_name(code)}")
        return dict(answer.array(lambda api: (api.i16(), (api.i16(), api.i16()))))

    return Request(api=Api.API_VERSIONS, version=0, body=Encoder().done(), read=read)
