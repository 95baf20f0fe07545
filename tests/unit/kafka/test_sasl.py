"""Logging in at a broker that is not what it seems to be, and telling a secret where it can be overheard."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from offsite.kafka.cluster import _cluster
from offsite.kafka.config import BrokerAddress, KafkaConfig, SaslConfig, TlsConfig, TokenEndpoint, TokenSource
from offsite.kafka.net import sasl, token_endpoint
from offsite.kafka.net.sasl import authenticate, read_token
from offsite.kafka.net.token_endpoint import AccessToken
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder
from offsite.model.errors import KafkaAuthenticationFailed, KafkaUnreachable, TokenEndpointUnavailable
from offsite.model.secret import Secret

PASSWORD = "pencil-sharp"
SALT = b"0123456789abcdef"
SCRAM = SaslConfig(mechanism="SCRAM-SHA-256", username="alice", password=Secret(PASSWORD))

Answer = Callable[[bytes], bytes]


class ScramBroker:
    """Plays the broker's side, with what `challenge` and `proof` make of the right answers."""

    def __init__(
        self, *, iterations: str = "4096", challenge: Answer = lambda right: right, proof: Answer = lambda right: right
    ) -> None:
        self._iterations, self._challenge, self._proof = iterations, challenge, proof
        self._said: list[bytes] = []
        self.heard: list[bytes] = []

    def __call__(self, request: Request[Any]) -> Any:
        if request.api is Api.SASL_HANDSHAKE:
            return request.parse(Decoder(memoryview(Encoder().i16(0).i32(0).done())))
        self.heard.append(Decoder(memoryview(request.body)).blob())
        data = self._first() if len(self.heard) == 1 else self._last()
        body = Encoder().i16(0).string("").blob(data).i64(0).done()
        return request.parse(Decoder(memoryview(body)))

    def _first(self) -> bytes:
        ours = self.heard[0].rpartition(b"r=")[2]
        right = b"r=%sbroker,s=%s,i=%s" % (ours, base64.b64encode(SALT), self._iterations.encode())
        self._said.append(self._challenge(right))
        return self._said[0]

    def _last(self) -> bytes:
        salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), SALT, int(self._iterations))
        key = hmac.digest(salted, b"Server Key", "sha256")
        message = b",".join([self.heard[0].removeprefix(b"n,,"), self._said[0], self.heard[1].rpartition(b",p=")[0]])
        return self._proof(b"v=" + base64.b64encode(hmac.digest(key, message, "sha256")))


def test_a_broker_that_proves_itself_is_believed() -> None:
    broker = ScramBroker()
    authenticate(SCRAM, broker)
    assert len(broker.heard) == 2


@pytest.mark.parametrize("iterations", ["4095", "1", "0", "-4096", "1000001", "9" * 30, "9" * 5000, "4096x", ""])
def test_too_few_and_too_many_iterations_get_no_proof_of_the_password(iterations: str) -> None:
    broker = ScramBroker(iterations=iterations)
    began_s = time.thread_time()
    with pytest.raises(KafkaAuthenticationFailed, match="iteration") as raised:
        authenticate(SCRAM, broker)
    assert time.thread_time() - began_s < 1
    assert len(broker.heard) == 1
    assert "broker" in raised.value.hint


@pytest.mark.parametrize(
    "challenge",
    [
        lambda right: b"r=another" + right[2:],
        lambda right: right.replace(b"broker,", b","),
        lambda right: right.partition(b",")[2],
        lambda _: b"",
        lambda _: bytes(range(256)),
    ],
    ids=["another", "only ours", "none", "empty", "no text"],
)
def test_a_nonce_that_does_not_go_on_from_ours_gets_no_proof(challenge: Answer) -> None:
    broker = ScramBroker(challenge=challenge)
    with pytest.raises(KafkaAuthenticationFailed, match="nonce"):
        authenticate(SCRAM, broker)
    assert len(broker.heard) == 1


@pytest.mark.parametrize(
    "proof",
    [lambda _: b"v=" + base64.b64encode(bytes(32)), lambda _: b"", lambda _: b"v=", lambda _: b"e=no"],
    ids=["wrong", "empty", "none", "error"],
)
def test_a_broker_that_does_not_know_the_password_is_not_believed(proof: Answer) -> None:
    with pytest.raises(KafkaAuthenticationFailed, match="the broker's proof is wrong"):
        authenticate(SCRAM, ScramBroker(proof=proof))


def config(host: str, mechanism: str, *, tls: bool = False) -> KafkaConfig:
    token = TokenSource(static=Secret("the-token")) if mechanism == "OAUTHBEARER" else None
    sasl = SaslConfig(mechanism=mechanism, username="alice", password=Secret(PASSWORD), token=token)
    addresses = (BrokerAddress(host="127.0.0.1", port=9092), BrokerAddress(host=host, port=9092))
    return KafkaConfig(bootstrap=addresses, sasl=sasl, tls=TlsConfig() if tls else None)


@pytest.mark.parametrize(("mechanism", "what"), [("PLAIN", "password"), ("OAUTHBEARER", "token")])
def test_a_secret_that_can_be_overheard_is_warned_of(
    mechanism: str, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    _cluster(config("broker.example.com", mechanism))
    (warning,) = caplog.messages
    assert warning.startswith("unencrypted hosts=broker.example.com ")
    assert what in warning
    assert PASSWORD not in warning
    assert "the-token" not in warning


@pytest.mark.parametrize(
    "safe", [config("broker", "PLAIN", tls=True), config("broker", "SCRAM-SHA-256"), config("localhost", "PLAIN")]
)
def test_what_nobody_can_overhear_is_not_warned_of(safe: KafkaConfig, caplog: pytest.LogCaptureFixture) -> None:
    _cluster(safe)
    assert not caplog.messages


def test_a_kept_token_that_a_broker_refuses_is_fetched_anew(client: TokenClient) -> None:
    """The provider may have called it back, or signs by another key since: a run that follows goes on."""
    client.log_in()
    assert client.broker.heard[-1] == b"n,,\x01auth=Bearer token-0\x01pool=a\x01\x01"
    client.broker.refused = {"token-0"}
    with pytest.raises(KafkaUnreachable, match="a broker refused a token"):
        client.log_in()
    client.log_in()
    assert client.fetched == ["token-0", "token-1"]
    assert client.waits_s == [1.0], "time for the broker to read the keys"


def test_a_fresh_token_that_a_broker_refuses_has_one_successor_a_minute(client: TokenClient) -> None:
    """A broker that does not know the key refuses the token, and reads the keys of the provider at most once a
    minute."""
    client.broker.refused = {"token-0", "token-1", "token-3"}
    with pytest.raises(KafkaUnreachable):
        client.log_in()
    with pytest.raises(KafkaAuthenticationFailed, match="invalid_token") as caught:
        client.log_in()
    assert "audience" in caught.value.hint
    assert (client.fetched, client.waits_s) == (["token-0", "token-1"], [1.0])
    client.log_in()  # token-2 passes
    token_endpoint.shared_tokens._kept[client.endpoint].refused_s -= 61
    client.broker.refused.add("token-2")
    with pytest.raises(KafkaUnreachable):
        client.log_in()  # it is kept from before
    with pytest.raises(KafkaUnreachable):
        client.log_in()  # and the next is of a key that this broker does not know
    client.log_in()
    assert client.fetched[-1] == "token-4"


@dataclass(slots=True)
class TokenClient:
    """Logs in at `broker`, by tokens `token-0`, `token-1` … of a provider."""

    endpoint: TokenEndpoint
    broker: TokenBroker
    fetched: list[str] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)

    def fetch(self, _: TokenEndpoint) -> AccessToken:
        self.fetched.append(f"token-{len(self.fetched)}")
        return AccessToken(text=self.fetched[-1], lifetime_s=600)

    def log_in(self) -> None:
        token = TokenSource(endpoint=self.endpoint, extensions=(("pool", "a"),))
        authenticate(SaslConfig(mechanism="OAUTHBEARER", token=token), self.broker)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> TokenClient:
    endpoint = TokenEndpoint(url=f"https://{monkeypatch!r}/", client_id="me", client_secret=Secret("s"))
    client = TokenClient(endpoint, TokenBroker())
    monkeypatch.setattr(token_endpoint, "fetch_token", client.fetch)
    monkeypatch.setattr(sasl, "sleep", client.waits_s.append, raising=False)
    return client


class TokenBroker:
    """Takes every token but those of `refused`, by the two rounds of RFC 7628."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.refused = set[str]()

    def __call__(self, request: Request[Any]) -> Any:
        if request.api is Api.SASL_HANDSHAKE:
            return request.parse(Decoder(memoryview(Encoder().i16(0).i32(0).done())))
        self.heard.append(Decoder(memoryview(request.body)).blob())
        problem = b'{"status":"invalid_token"}'
        if self.heard[-1] == b"\x01":
            body = Encoder().i16(58).string(problem.decode()).blob(b"").i64(0).done()
        else:
            is_refused = any(token.encode() in self.heard[-1] for token in self.refused)
            body = Encoder().i16(0).string("").blob(problem * is_refused).i64(0).done()
        return request.parse(Decoder(memoryview(body)))


@pytest.mark.parametrize(
    "sasl",
    [
        SaslConfig(mechanism="PLAIN", username="alice", password=Secret(PASSWORD)),
        SaslConfig(mechanism="OAUTHBEARER", token=TokenSource(static=Secret(PASSWORD))),
    ],
    ids=["password", "token"],
)
def test_a_secret_that_a_broker_repeats_is_not_shown(sasl: SaslConfig) -> None:
    def broker(request: Request[Any]) -> Any:
        body = Encoder().i16(0).i32(0) if request.api is Api.SASL_HANDSHAKE else Encoder().i16(58)
        if request.api is not Api.SASL_HANDSHAKE:
            body.string(f"no user has {PASSWORD!r}").blob(b"").i64(0)
        return request.parse(Decoder(memoryview(body.done())))

    with pytest.raises(KafkaAuthenticationFailed, match=r"no user has '\*\*\*'") as refused:
        authenticate(sasl, broker)
    assert PASSWORD not in str(refused.value)


def test_a_provider_that_is_down_is_told_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(_: TokenEndpoint) -> AccessToken:
        raise TokenEndpointUnavailable("down")

    monkeypatch.setattr(token_endpoint, "fetch_token", fetch)
    endpoint = TokenEndpoint(url=f"https://{monkeypatch!r}/down", client_id="me", client_secret=Secret("s"))
    broker = TokenBroker()
    with pytest.raises(TokenEndpointUnavailable):
        authenticate(SaslConfig(mechanism="OAUTHBEARER", token=TokenSource(endpoint=endpoint)), broker)
    assert broker.heard == []


@pytest.mark.parametrize(
    "printed",
    [b"a\x01evil=1", b"warning: old\ntoken", b"t\xff", b"a b", b" \n"],
    ids=["0x01", "lines", "bytes", "space", "none"],
)
def test_what_is_no_token_is_not_sent(tmp_path: Path, printed: bytes) -> None:
    """A byte 0x01 inside of a token would begin an extension that nobody asked for."""
    (file := tmp_path / "token").write_bytes(printed)
    for source in (TokenSource(file=str(file)), TokenSource(command=("cat", str(file)))):
        with pytest.raises(KafkaAuthenticationFailed) as caught:
            read_token(source)
        assert "evil" not in str(caught.value) + caught.value.hint
    file.write_bytes(b"\nwhole.to-ken_=\n")
    assert read_token(TokenSource(command=("cat", str(file)))) == "whole.to-ken_="


def test_a_command_for_tokens_reads_nothing_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `ssh` does: a Spark worker's standard input tells it what to do. The command waited for the end of it."""
    monkeypatch.setattr(sasl, "_COMMAND_TIMEOUT_S", 2)
    reading, writing = os.pipe()
    before = os.dup(0)
    os.dup2(reading, 0)
    try:
        os.write(writing, b"for offsite")
        assert read_token(TokenSource(command=("sh", "-c", "cat > /dev/null; echo token"))) == "token"
        assert os.read(0, 100) == b"for offsite"
    finally:
        os.dup2(before, 0)
        for handle in (before, reading, writing):
            os.close(handle)
