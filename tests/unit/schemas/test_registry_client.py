"""A registry is trusted with nothing: slow, long and strange answers end with a named error, and the login goes to
nobody else."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from offsite.kafka.config import TlsConfig, TokenSource
from offsite.kafka.net.http_exchange import HttpLimits
from offsite.model.errors import BadOption, BadRegistry, RegistryDenied, RegistryUnavailable
from offsite.model.secret import Secret
from offsite.schemas.registry_client import BasicLogin, RegistryAddress, RegistryClient, parse_registry_url
from tests.certificates import Certificates, make_certificates
from tests.schema_registry import SchemaRegistryServer, serving
from tests.virtual_time import VirtualClock

LOGIN = BasicLogin(user="backup", password=Secret("pass-word"))
LIMITS = HttpLimits(connect_timeout_s=2, read_timeout_s=0.5, answer_bytes=10_000)


@pytest.fixture
def server() -> Iterator[SchemaRegistryServer]:
    with serving(SchemaRegistryServer()) as server:
        yield server


def client_of(server: SchemaRegistryServer, *, clock: VirtualClock | None = None, **more: object) -> RegistryClient:
    return RegistryClient(
        replace(RegistryAddress(url=server.url), **more), clock=clock or VirtualClock(), limits=LIMITS
    )  # type: ignore[arg-type]


def test_what_is_there_is_answered_and_what_is_not_is_absent(server: SchemaRegistryServer) -> None:
    server.register("a/b?", '"int"')
    client = client_of(server)
    assert client.get("subjects", "a/b?", "versions", "1").value == {
        "subject": "a/b?",
        "version": 1,
        "id": 1,
        "schema": '"int"',
    }
    assert client.get("subjects", "none", "versions").is_absent
    assert client.get("contexts").is_absent


def test_a_path_of_the_address_is_kept(server: SchemaRegistryServer) -> None:
    address = RegistryAddress(url=parse_registry_url(f"{server.url}/apis/ccompat/v7/"))
    RegistryClient(address).get("subjects", deleted="true")
    assert server.asked[-1][1] == "/apis/ccompat/v7/subjects?deleted=true"


@pytest.mark.parametrize(
    ("login", "proof"),
    [
        (LOGIN, f"Basic {base64.b64encode(b'backup:pass-word').decode()}"),
        (TokenSource(static=Secret("token-7")), "Bearer token-7"),
        (None, None),
    ],
    ids=["basic", "bearer", "none"],
)
def test_a_login_goes_along(server: SchemaRegistryServer, login: object, proof: str | None) -> None:
    client_of(server, login=login, headers=(("target-sr-cluster", "lsrc-1"),)).get("subjects")
    _, _, headers = server.asked[-1]
    assert (headers.get("Authorization"), headers["target-sr-cluster"]) == (proof, "lsrc-1")


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_login_is_told_without_the_login(server: SchemaRegistryServer, status: int) -> None:
    body = b'{"error_code": 40101, "message": "pass-word of YmFja3VwOnBhc3Mtd29yZA== is \\u001b[1mwrong"}'
    server.interfere = lambda _method, _target: (status, body, {})
    with pytest.raises(RegistryDenied, match=f"refuses GET with {status}") as refusal:
        client_of(server, login=LOGIN).get("subjects")
    assert r"(*** of *** is \x1b[1mwrong)" in refusal.value.message
    assert "\x1b" not in refusal.value.message


def test_a_redirect_is_refused_and_the_login_stays(server: SchemaRegistryServer) -> None:
    with serving(SchemaRegistryServer()) as other:
        server.interfere = lambda _method, target: (302, b"", {"Location": f"{other.url}{target}"})
        with pytest.raises(BadRegistry, match=r"redirects to another place \(302\)"):
            client_of(server, login=LOGIN).get("subjects")
        assert other.asked == []


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_registry_is_asked_again(server: SchemaRegistryServer, status: int) -> None:
    clock, busy = VirtualClock(), [(status, b"{}", {"Retry-After": "7"})]
    server.interfere = lambda _method, _target: busy.pop() if busy else None
    assert client_of(server, clock=clock).get("subjects").value == []
    assert clock.now_s >= 7


def test_a_registry_that_stays_busy_is_unavailable(server: SchemaRegistryServer) -> None:
    clock = VirtualClock()
    server.interfere = lambda _method, _target: (503, b'{"message": "no leader"}', {"Retry-After": "99999"})
    with pytest.raises(RegistryUnavailable, match=r"answers 503 \(no leader\)"):
        client_of(server, clock=clock).get("subjects")
    assert 30 <= clock.now_s < 60


def test_a_refused_request_is_no_answer(server: SchemaRegistryServer) -> None:
    server.interfere = lambda _method, _target: (422, b'{"message": "not like this"}', {})
    with pytest.raises(BadRegistry, match=r"answers 422 to GET /subjects \(not like this\)"):
        client_of(server).get("subjects")
    assert client_of(server).send("POST", "subjects", "a", "versions", body={}).message == " (not like this)"


def test_an_answer_that_is_too_long_is_refused(server: SchemaRegistryServer) -> None:
    server.interfere = lambda _method, _target: (200, b"[" + b" " * LIMITS.answer_bytes + b"]", {})
    with pytest.raises(BadRegistry, match="cut short, or longer than"):
        client_of(server).get("subjects")


def scripted(answer: Callable[[socket.socket], None]) -> tuple[socket.socket, str]:
    """A server of raw bytes: `answer` gets each connection."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connected, _ = listening.accept()
            except OSError:
                return
            with connected:
                answer(connected)

    threading.Thread(target=serve, daemon=True).start()
    return listening, f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_an_answer_byte_by_byte_ends_in_time() -> None:
    def drip(connected: socket.socket) -> None:
        connected.recv(65536)
        connected.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
        try:
            for _ in range(100):
                connected.sendall(b" ")
                time.sleep(0.05)
        except OSError:
            return

    listening, url = scripted(drip)
    client = RegistryClient(RegistryAddress(url=url), clock=_Impatient(), limits=LIMITS)
    began_s = time.monotonic()
    with listening, pytest.raises(RegistryUnavailable, match="it takes too long"):
        client.get("subjects")
    assert time.monotonic() - began_s < 4


class _Impatient(VirtualClock):
    """Time is over after the first failure."""

    def monotonic_s(self) -> float:
        self.now_s += 100
        return self.now_s


def test_a_connection_that_was_closed_meanwhile_is_opened_again() -> None:
    connections = []

    def answer_once(connected: socket.socket) -> None:
        connections.append(connected.recv(65536))
        connected.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")  # and closes, without a word

    listening, url = scripted(answer_once)
    with listening:
        client = RegistryClient(RegistryAddress(url=url), clock=_Impatient(), limits=LIMITS)
        assert [client.get("subjects").value for _ in range(3)] == [[], [], []]
    assert len(connections) == 3


def test_requests_of_a_thread_share_a_connection(server: SchemaRegistryServer) -> None:
    client = client_of(server)
    client.get("subjects")
    peer = client._peer()
    assert peer.is_connected
    client.get("subjects")
    assert client._peer() is peer


def test_a_closed_client_ends_what_is_under_way_and_asks_nothing_more(server: SchemaRegistryServer) -> None:
    is_asked, may_answer = threading.Event(), threading.Event()

    def hold(_method: str, _target: str) -> None:
        is_asked.set()
        may_answer.wait(30)

    server.interfere = hold
    client, errors = RegistryClient(RegistryAddress(url=server.url)), list[Exception]()

    def ask() -> None:
        try:
            client.get("subjects")
        except RegistryUnavailable as error:
            errors.append(error)

    (asking := threading.Thread(target=ask)).start()
    assert is_asked.wait(30)
    client.close()
    asking.join(20)
    has_ended = not asking.is_alive()
    may_answer.set()
    asking.join()
    assert (has_ended, len(errors), len(server.asked)) == (True, 1, 1)
    with pytest.raises(RegistryUnavailable, match="is not asked any more"):
        client.get("subjects")
    assert len(server.asked) == 1


def test_nobody_there_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with pytest.raises(RegistryUnavailable, match="does not answer: Connection refused"):
        RegistryClient(RegistryAddress(url=url), clock=VirtualClock()).get("subjects")


def test_a_certificate_of_a_strange_authority_is_refused(tmp_path: object) -> None:
    certificates: Certificates = make_certificates(tmp_path)  # type: ignore[arg-type]

    def hand_shake(connected: socket.socket) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.server)
        try:
            context.wrap_socket(connected, server_side=True).close()
        except OSError:
            return

    listening, url = scripted(hand_shake)
    address = RegistryAddress(url=url.replace("http:", "https:"), tls=TlsConfig(trusts_machine=True))
    client = RegistryClient(address, clock=VirtualClock())
    with listening, pytest.raises(BadRegistry, match="certificate of the registry"):
        client.get("subjects")


@pytest.mark.parametrize(
    "text",
    [
        "https://user:pass-word@host:8081",
        "https://:pass-word@host",
        "https://host/?key=pass-word",
        "https://host/#pass-word",
        "ftp://host",
        "host:8081",
        "https://",
        "https://host:0",
        "https://host:70000",
        "https://[::1",
        "https://host/\n",
    ],
)
def test_an_address_is_a_place_alone(text: str) -> None:
    with pytest.raises(BadOption) as refusal:
        parse_registry_url(text)
    assert "pass-word" not in refusal.value.message


@pytest.mark.parametrize("text", ["http://localhost:8081/", "https://[::1]:8081", "https://psrc-1.eu.confluent.cloud"])
def test_an_address_is_kept_without_its_last_slash(text: str) -> None:
    assert parse_registry_url(text) == text.rstrip("/")


@pytest.mark.parametrize(
    ("url", "in_clear"),
    [("http://host:8081", True), ("https://host:8081", False), ("http://127.0.0.1:8081", False)],
)
def test_a_login_without_tls_is_known(url: str, *, in_clear: bool) -> None:
    assert RegistryAddress(url=url, login=LOGIN).sends_login_in_clear is in_clear
    assert not RegistryAddress(url=url).sends_login_in_clear
    assert "pass-word" not in repr(RegistryAddress(url=url, login=LOGIN))
