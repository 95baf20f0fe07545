"""A login that ends (KIP-368): the connection logs in again in time, so that a broker that hangs up behind the end
never has to."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field

import pytest

from offsite.kafka.config import BrokerAddress, KafkaConfig, SaslConfig
from offsite.kafka.net.connection import LOGIN_AGAIN, Connection
from offsite.kafka.net.routing import ConnectionPool
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Encoder
from offsite.model.errors import KafkaAuthenticationFailed, KafkaUnreachable
from offsite.model.secret import Secret

LIFETIME_S = 0.5
ASK = Request(api=Api.METADATA, version=8, body=b"", read=lambda answer: answer.i32())


@dataclass(slots=True)
class Broker:
    """Takes any password, for `lifetime_s`; hangs up on a request behind the end, as Kafka does. `asked`: the requests
    of each connection. `refuses`: the number of the login that is refused, from 1 on."""

    lifetime_s: float = LIFETIME_S
    refuses: int = 0
    asked: list[list[Api]] = field(default_factory=list)
    logins: int = 0
    address: BrokerAddress = field(default_factory=lambda: BrokerAddress(host="127.0.0.1", port=1))

    @property
    def config(self) -> KafkaConfig:
        sasl = SaslConfig(mechanism="PLAIN", username="alice", password=Secret("secret"))
        return KafkaConfig(bootstrap=(self.address,), sasl=sasl, request_timeout_ms=5000)

    def serve(self, sock: socket.socket) -> None:
        asked, end_s = list[Api](), float("inf")
        self.asked.append(asked)
        with suppress(OSError, EOFError), closing(sock):
            while True:
                (size,) = struct.unpack(">i", _exactly(sock, 4))
                api, _, correlation = struct.unpack_from(">hhi", _exactly(sock, size))
                asked.append(Api(api))
                if api not in {Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE} and time.monotonic() > end_s:
                    return
                body = self._answer(Api(api))
                if api == Api.SASL_AUTHENTICATE:
                    end_s = time.monotonic() + (self.lifetime_s or float("inf"))
                sock.sendall(struct.pack(">ii", len(body) + 4, correlation) + body)

    def _answer(self, api: Api) -> bytes:
        if api is Api.API_VERSIONS:
            return Encoder().i16(0).array([18, 17, 36, 3], lambda to, key: to.i16(key).i16(0).i16(12)).done()
        if api is Api.SASL_HANDSHAKE:
            return Encoder().i16(0).array(["PLAIN"], Encoder.string).done()
        if api is Api.SASL_AUTHENTICATE:
            self.logins += 1
            code = 58 if self.logins == self.refuses else 0
            return Encoder().i16(code).string("no" * bool(code)).blob(b"").i64(int(self.lifetime_s * 1000)).done()
        return Encoder().i32(0).i32(7).done()  # behind the throttle time


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        if not (more := sock.recv(size - len(data))):
            raise EOFError
        data += more
    return data


@contextmanager
def serving(broker: Broker) -> Iterator[Broker]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        broker.address = BrokerAddress(host="127.0.0.1", port=server.getsockname()[1])

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=broker.serve, args=(server.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield broker
        server.shutdown(socket.SHUT_RDWR)


def test_a_connection_logs_in_again_before_its_session_ends() -> None:
    with serving(Broker()) as broker, closing(Connection.open(broker.config, broker.address)) as connection:
        end_s = time.monotonic() + 4 * LIFETIME_S
        while time.monotonic() < end_s:
            assert connection.call(ASK) == 7
            time.sleep(0.02)
    assert len(broker.asked) == 1, "one connection from begin to end"
    assert 4 <= broker.logins <= 7
    first = broker.asked[0]
    again = [first[number - 1] for number, api in enumerate(first) if api is Api.SASL_AUTHENTICATE]
    assert set(again) == {Api.SASL_HANDSHAKE}


def test_a_session_without_an_end_is_begun_once() -> None:
    with serving(Broker(lifetime_s=0)) as broker, closing(Connection.open(broker.config, broker.address)) as connection:
        assert not connection.login_due
        assert connection.call(ASK) == 7
    assert broker.logins == 1


def test_no_login_goes_between_requests_in_flight() -> None:
    with serving(Broker()) as broker, closing(Connection.open(broker.config, broker.address)) as connection:
        connection.post(ASK)
        time.sleep(LIFETIME_S * LOGIN_AGAIN[1])
        assert connection.login_due
        connection.post(ASK)
        assert broker.logins == 1
        assert [connection.collect(ASK), connection.collect(ASK)] == [7, 7]
        assert connection.call(ASK) == 7
    assert broker.logins == 2


def test_a_connection_that_was_idle_past_the_end_is_not_used_again() -> None:
    with serving(Broker(lifetime_s=0.2)) as broker, closing(ConnectionPool()) as pool:
        for _ in range(3):
            with pool.lease(broker.config, broker.address) as connection:
                assert connection.call(ASK) == 7
            time.sleep(0.25)
    assert len(broker.asked) == 3


def test_a_login_that_is_refused_later_is_an_authentication_error() -> None:
    with serving(Broker(refuses=2)) as broker, closing(Connection.open(broker.config, broker.address)) as connection:
        time.sleep(LIFETIME_S * LOGIN_AGAIN[1])
        with pytest.raises(KafkaAuthenticationFailed, match="PLAIN authentication as alice failed: no"):
            connection.call(ASK)
        assert not connection.usable


def test_a_broker_that_hangs_up_early_is_a_lost_connection() -> None:
    with serving(Broker()) as broker, closing(Connection.open(broker.config, broker.address)) as connection:
        connection.post(ASK)
        connection.collect(ASK)
        connection._login_due_s = float("inf")  # as a clock that stood still
        time.sleep(LIFETIME_S + 0.1)
        with pytest.raises(KafkaUnreachable):
            connection.call(ASK)
