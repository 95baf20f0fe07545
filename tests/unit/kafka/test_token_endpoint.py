"""Tokens from an identity provider: what is asked, what is kept, and what a provider's faults become."""

from __future__ import annotations

import base64
import json
import os
import pickle
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from offsite.kafka.config import ClientAssertion, SaslConfig, TlsConfig, TokenEndpoint, TokenSource
from offsite.kafka.net import http_exchange, token_endpoint
from offsite.kafka.net.token_endpoint import TokenCache, fetch_token, refresh_delay_s, token_claims
from offsite.model.errors import (
    BadKafkaConfig,
    KafkaAuthenticationFailed,
    SecretStays,
    TokenEndpointUnavailable,
    TokenRefused,
)
from offsite.model.secret import Secret, SecretHandling, handle_secrets
from tests.certificates import Certificates, make_certificates
from tests.examples import examples
from tests.identity_provider import BEARER_GRANT, CLIENT, SECRET, IdentityProvider, serving


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def provider(certificates: Certificates) -> Iterator[IdentityProvider]:
    with serving(IdentityProvider(certificates.server)) as provider:
        yield provider


@pytest.fixture
def endpoint(provider: IdentityProvider, certificates: Certificates) -> TokenEndpoint:
    return TokenEndpoint(
        url=provider.url,
        client_id=CLIENT,
        client_secret=Secret(SECRET),
        tls=TlsConfig(ca_pem=certificates.authority.read_text(), trusts_machine=True),
        retry_s=0.05,
        retry_max_s=0.3,
        read_timeout_s=1,
    )


def test_a_token_is_asked_by_the_clients_id_and_secret(provider: IdentityProvider, endpoint: TokenEndpoint) -> None:
    token = fetch_token(replace(endpoint, scope="api://kafka/.default more"))
    assert token.text == provider.tokens[0]
    assert token.lifetime_s == 600
    (asked,) = provider.asked
    assert asked.form == {"grant_type": "client_credentials", "scope": "api://kafka/.default more"}
    assert asked.headers["Accept"] == "application/json"
    assert token.text not in repr(token)


def test_the_header_is_encoded_where_the_provider_wants_it(provider: IdentityProvider, endpoint: TokenEndpoint) -> None:
    provider.secrets = {"a%3Ab": "c%26d"}
    encoded = replace(endpoint, client_id="a:b", client_secret=Secret("c&d"), encodes_header=True)
    assert fetch_token(encoded).text
    with pytest.raises(TokenRefused):
        fetch_token(replace(encoded, encodes_header=False))


def test_a_wrong_secret_is_refused_at_once_and_never_shown(provider: IdentityProvider, endpoint: TokenEndpoint) -> None:
    provider.failures = [
        (401, json.dumps({"error": "invalid_client", "error_description": "not hunter2\x1b["}).encode())
    ]
    began_s = time.monotonic()
    with pytest.raises(TokenRefused, match=r"refuses the client: 401 \(invalid_client, not \*\*\*") as caught:
        fetch_token(replace(endpoint, client_secret=Secret("hunter2"), retry_max_s=60))
    assert time.monotonic() - began_s < 5
    assert caught.value.exit_code == 17
    assert "hunter2" not in str(caught.value) + caught.value.hint
    assert "\x1b" not in str(caught.value)


def test_what_a_provider_repeats_of_a_request_is_never_shown(
    provider: IdentityProvider, endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    (file := tmp_path / "assertion").write_text("signed.by.us")
    odd = "hun ter&2"
    header = base64.b64encode(f"{CLIENT}:{odd}".encode()).decode()
    by_secret = replace(endpoint, client_secret=Secret(odd))
    for asks, text in (
        (by_secret, f"no Basic {header}"),
        (by_secret, "no hun+ter%262"),
        (replace(endpoint, client_secret=None, assertion=ClientAssertion(file=str(file))), "no signed.by.us"),
    ):
        provider.failures = [(401, json.dumps({"error": "no", "error_description": text}).encode())]
        with pytest.raises(TokenRefused, match=r"\(no, no .*\*\*\*\)"):
            fetch_token(asks)


def test_a_provider_that_is_busy_is_asked_again(provider: IdentityProvider, endpoint: TokenEndpoint) -> None:
    provider.failures = [(503, b"<html>"), (429, b"")]
    assert fetch_token(endpoint).text
    assert len(provider.asked) == 3


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_a_provider_that_stays_busy_is_one_to_come_back_to(
    provider: IdentityProvider, endpoint: TokenEndpoint, status: int
) -> None:
    provider.failures = [(status, b"")] * 20
    with pytest.raises(TokenEndpointUnavailable, match=f"answers {status}"):
        fetch_token(endpoint)


@pytest.mark.parametrize("status", [302, 307, 400, 403, 404, 501])
def test_what_no_repetition_mends_is_refused_and_no_redirect_followed(
    provider: IdentityProvider, endpoint: TokenEndpoint, status: int
) -> None:
    provider.failures = [(status, b"")]
    with pytest.raises(TokenRefused, match=str(status)):
        fetch_token(endpoint)
    assert len(provider.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b"{}",
        b'{"access_token": 7}',
        b'{"access_token": "a\\u0001b"}',
        b'{"access_token": ""}',
        b"[" * 100_000,
    ],
    ids=["empty", "list", "object", "number", "bytes of the login", "empty token", "deep"],
)
def test_an_answer_without_a_token_is_refused(
    provider: IdentityProvider, endpoint: TokenEndpoint, answer: bytes
) -> None:
    provider.failures = [(200, answer)]
    with pytest.raises(TokenRefused, match="without an access_token"):
        fetch_token(endpoint)


def test_a_provider_of_an_unknown_authority_is_refused(endpoint: TokenEndpoint) -> None:
    with pytest.raises(TokenRefused, match=r"certificate of the token endpoint .* is not accepted") as caught:
        fetch_token(replace(endpoint, tls=TlsConfig(trusts_machine=True)))
    assert "ssl.truststore.location" in caught.value.hint


def test_nobody_there_is_unavailable(endpoint: TokenEndpoint) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(TokenEndpointUnavailable, match="Connection refused"):
        fetch_token(replace(endpoint, url=f"https://127.0.0.1:{port}/"))


def test_an_answer_byte_by_byte_does_not_hold_up_a_login(endpoint: TokenEndpoint) -> None:
    def drip(server: socket.socket) -> None:
        sock, _ = server.accept()
        with sock:
            sock.recv(65536)
            for _ in range(100):
                try:
                    sock.sendall(b"H")
                except OSError:
                    return
                time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=drip, args=(server,), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        began_s = time.monotonic()
        with pytest.raises(TokenEndpointUnavailable):
            fetch_token(replace(endpoint, url=url, read_timeout_s=0.3, retry_max_s=0))
        assert time.monotonic() - began_s < 3


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_end_of_an_ipv6_address_is_no_port(
    endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """Another machine would get the secret: `2001:db8::5`, on the port 8443."""
    asked, here = list[tuple[str, int]](), threading.get_ident()

    def refused(address: tuple[str, int], *_: object) -> socket.socket:
        if threading.get_ident() == here:  # threads of other tests may connect at any time
            asked.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", refused)
    with pytest.raises(TokenEndpointUnavailable):
        fetch_token(replace(endpoint, url=f"{scheme}://[2001:db8::5:8443]/token", retry_max_s=0))
    assert asked == [("2001:db8::5:8443", {"http": 80, "https": 443}[scheme])]


def test_a_proxy_line_by_line_does_not_hold_up_a_login(
    endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drip(server: socket.socket) -> None:
        sock, _ = server.accept()
        with sock:
            sock.recv(65536)
            try:
                sock.sendall(b"HTTP/1.1 200 OK\r\n")
                for _ in range(100):
                    sock.sendall(b"X: y\r\n")
                    time.sleep(0.05)
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=drip, args=(server,), daemon=True).start()
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{server.getsockname()[1]}")
        slow = replace(endpoint, url="https://login.example.com/token", connect_timeout_s=0.2, retry_max_s=0)
        began_s = time.monotonic()
        with pytest.raises(TokenEndpointUnavailable, match="it takes too long"):
            fetch_token(slow)
        assert time.monotonic() - began_s < 3


def test_an_answer_that_the_limit_cut_short_is_one_to_ask_for_again(endpoint: TokenEndpoint) -> None:
    """Without a length, a cut answer looks whole."""

    def begin(server: socket.socket) -> None:
        sock, _ = server.accept()
        with sock:
            sock.recv(65536)
            sock.sendall(b'HTTP/1.0 200 OK\r\n\r\n{"access_token": ')
            time.sleep(1)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=begin, args=(server,), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        with pytest.raises(TokenEndpointUnavailable, match="it takes too long"):
            fetch_token(replace(endpoint, url=url, read_timeout_s=0.3, retry_max_s=0))


def test_an_answer_whose_end_is_the_end_of_the_connection_is_bounded_in_time_as_well(endpoint: TokenEndpoint) -> None:
    """http.client forgets the socket of such an answer, while it is still read."""
    is_over = threading.Event()

    def drip(server: socket.socket) -> None:
        sock, _ = server.accept()
        with sock, suppress(OSError):
            sock.recv(65536)
            sock.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
            for _ in range(40):
                sock.sendall(b" ")
                is_over.wait(0.1)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=drip, args=(server,), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        began_s = time.monotonic()
        with pytest.raises(TokenEndpointUnavailable, match="it takes too long"):
            fetch_token(replace(endpoint, url=url, read_timeout_s=0.3, retry_max_s=0))
        is_over.set()
    assert time.monotonic() - began_s < 3


def test_a_connection_that_is_hung_up_never_sends_in_clear(certificates: Certificates) -> None:
    ours, theirs = socket.socketpair()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificates.server)
    client = ssl.create_default_context(cafile=str(certificates.authority))
    client.check_hostname = False
    with ours, theirs:
        peer = threading.Thread(target=lambda: server.wrap_socket(theirs, server_side=True))
        peer.start()
        with client.wrap_socket(ours) as connected:
            peer.join()
            http_exchange._hang_up(connected)
            assert connected.version() is not None, "it would send without TLS"
            with pytest.raises((ssl.SSLError, BrokenPipeError)):
                connected.sendall(b"secret")


def test_the_login_of_a_proxy_is_decoded_and_goes_to_no_proxy_of_another_kind(
    endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    received = list[bytes]()

    def refuse(server: socket.socket) -> None:
        sock, _ = server.accept()
        with sock:
            received.append(sock.recv(65536))
            sock.sendall(b"HTTP/1.1 407 no\r\n\r\n")

    asked = replace(endpoint, url="https://login.example.com/token", retry_max_s=0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"us%40er:p%3Aw@127.0.0.1:{server.getsockname()[1]}"
        for scheme in ("https", "socks5"):
            monkeypatch.setenv("https_proxy", f"{scheme}://{place}")
            with pytest.raises(BadKafkaConfig, match=f"a proxy of {scheme}") as caught:
                fetch_token(replace(asked, read_timeout_s=0.2, connect_timeout_s=0.2))
            assert "w@" not in str(caught.value)
        monkeypatch.setenv("https_proxy", place)
        threading.Thread(target=refuse, args=(server,), daemon=True).start()
        with pytest.raises(TokenEndpointUnavailable, match="the proxy refuses the connection"):
            fetch_token(asked)
    assert base64.b64encode(b"us@er:p:w") in received[0]


# -- Assertions --------------------------------------------------------------------------------------------------------


def key_pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, *, password: bytes = b"") -> str:
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(pem, pkcs8, encryption).decode()


def public_pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> str:
    pem, info = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(pem, info).decode()


@pytest.mark.parametrize("is_bearer", [False, True])
@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_client_proves_itself_by_a_key(
    provider: IdentityProvider, endpoint: TokenEndpoint, algorithm: str, is_bearer: bool
) -> None:
    key = rsa.generate_private_key(65537, 2048) if algorithm == "RS256" else ec.generate_private_key(ec.SECP256R1())
    provider.assertion_key = public_pem(key)
    assertion = ClientAssertion(
        key_pem=Secret(key_pem(key, password=b"open")),
        key_password=Secret("open"),
        algorithm=algorithm,
        template='{"header": {"kid": "k1"}, "payload": {"aud": "template", "team": "a"}}',
        claims=(("iss", CLIENT), ("sub", CLIENT), ("aud", "tests")),
        has_id=True,
    )
    signed = replace(endpoint, client_secret=None, assertion=assertion, is_bearer=is_bearer)
    assert fetch_token(signed).text == provider.tokens[0]
    form = provider.asked[0].form
    assert form["grant_type"] == (BEARER_GRANT if is_bearer else "client_credentials")
    assert form.get("client_id") == (None if is_bearer else CLIENT)
    assert "Authorization" not in provider.asked[0].headers
    claims = token_claims(form["assertion" if is_bearer else "client_assertion"])
    assert (claims["aud"], claims["team"], claims["exp"] - claims["iat"], claims["iat"] - claims["nbf"]) == (
        "tests",
        "a",
        300,
        60,
    )
    assert claims["jti"]


def test_an_assertion_in_a_file_is_read_for_each_request(
    provider: IdentityProvider, endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    file = tmp_path / "assertion"
    by_file = replace(endpoint, client_secret=None, assertion=ClientAssertion(file=str(file)), retry_max_s=0)
    with pytest.raises(KafkaAuthenticationFailed, match="cannot read the client assertion"):
        fetch_token(by_file)
    for text in ("first", "second"):
        file.write_text(f"{text}\n")
        provider.failures = [(403, b"")]
        with pytest.raises(TokenRefused):
            fetch_token(by_file)
        assert provider.asked[-1].form["client_assertion"] == text


@pytest.mark.parametrize(
    ("pem", "password", "algorithm"),
    [
        ("nonsense", "", "RS256"),
        (key_pem(ec.generate_private_key(ec.SECP256R1()), password=b"open"), "shut", "ES256"),
        (key_pem(ec.generate_private_key(ec.SECP256R1())), "", "RS256"),
        (key_pem(ec.generate_private_key(ec.SECP384R1())), "", "ES256"),
    ],
    ids=["no key", "wrong passphrase", "other algorithm", "other curve"],
)
def test_a_key_that_does_not_do_is_a_configuration_error(
    endpoint: TokenEndpoint, pem: str, password: str, algorithm: str
) -> None:
    secret = Secret(password) if password else None
    assertion = ClientAssertion(key_pem=Secret(pem), key_password=secret, algorithm=algorithm)
    with pytest.raises(BadKafkaConfig, match="the key of the client assertion"):
        fetch_token(replace(endpoint, client_secret=None, assertion=assertion))


# -- The cache ---------------------------------------------------------------------------------------------------------


def test_one_token_serves_all_threads_until_it_nears_its_end(
    provider: IdentityProvider, endpoint: TokenEndpoint
) -> None:
    provider.delay_s = 0.1
    cache, tokens = TokenCache(), list[str]()
    threads = [threading.Thread(target=lambda: tokens.append(cache.token(endpoint))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(provider.asked) == 1
    assert set(tokens) == {provider.tokens[0]}


def test_a_token_near_its_end_is_replaced_and_no_earlier(provider: IdentityProvider, endpoint: TokenEndpoint) -> None:
    provider.lifetime_s, cache = 1, TokenCache()
    first = cache.token(endpoint)
    assert cache.token(endpoint) == first
    time.sleep(0.9)
    assert cache.token(endpoint) != first
    assert len(provider.asked) == 2


def test_a_provider_that_is_down_does_no_harm_while_the_token_is_valid(
    provider: IdentityProvider, endpoint: TokenEndpoint
) -> None:
    provider.lifetime_s, cache = 2, TokenCache()
    quick = replace(endpoint, retry_max_s=0.2, refresh_factor=0.5, refresh_jitter=0)
    first = cache.token(quick)
    provider.failures = [(503, b"")] * 100
    time.sleep(1.1)
    assert cache.token(quick) == first
    asked = len(provider.asked)
    assert cache.token(quick) == first
    assert len(provider.asked) == asked, "not asked again at once"
    time.sleep(1)
    with pytest.raises(TokenEndpointUnavailable):
        cache.token(quick)
    provider.failures = []
    time.sleep(0.25)
    assert cache.token(quick) != first


def test_a_token_without_a_known_end_is_fetched_for_every_login(
    provider: IdentityProvider, endpoint: TokenEndpoint
) -> None:
    provider.failures = [(200, b'{"access_token": "opaque-1"}'), (200, b'{"access_token": "opaque-2"}')]
    cache = TokenCache()
    assert [cache.token(endpoint), cache.token(endpoint)] == ["opaque-1", "opaque-2"]


def test_a_refused_token_is_forgotten(provider: IdentityProvider, endpoint: TokenEndpoint) -> None:
    cache = TokenCache()
    began_s = time.monotonic()
    first = cache.token(endpoint)
    assert cache.discard(endpoint, message_of(first), began_s), "a broker may read the key of another one"
    second = cache.token(endpoint)
    assert second != first
    assert cache.discard(endpoint, message_of(second), time.monotonic()), "it is of an earlier login"
    third = cache.token(endpoint)
    assert third != second
    assert not cache.discard(endpoint, message_of(third), began_s), "it was fetched for this login, as the first was"


def test_a_token_that_another_thread_has_fetched_anew_is_kept(
    provider: IdentityProvider, endpoint: TokenEndpoint
) -> None:
    """Two threads log in by the same token, which a broker refuses: the first of them has a fresh one by the time that
    the other hears of it."""
    cache = TokenCache()
    first, began_s = cache.token(endpoint), time.monotonic()
    assert cache.discard(endpoint, message_of(first), began_s)
    second = cache.token(endpoint)
    assert cache.discard(endpoint, message_of(first), began_s), "the other tries again"
    assert cache.token(endpoint) == second


def message_of(token: str) -> bytes:
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def test_a_forked_child_fetches_its_own(provider: IdentityProvider, endpoint: TokenEndpoint) -> None:
    shared = token_endpoint.shared_tokens
    try:
        shared.token(endpoint)
        if (child := os.fork()) == 0:
            os._exit(len(shared._kept))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        shared.clear()


@given(lifetime_s=st.floats(1, 100_000), chance=st.floats(0, 1))
@examples(50)
def test_a_token_is_refreshed_before_its_end_and_not_all_the_time(lifetime_s: float, chance: float) -> None:
    delay_s = refresh_delay_s(TokenEndpoint(url="https://x"), lifetime_s, chance=chance)
    assert lifetime_s / 2 <= delay_s <= lifetime_s or delay_s >= 60
    assert delay_s <= lifetime_s
    assert lifetime_s < 360 or delay_s <= lifetime_s - 300 or delay_s == 60


# -- Travel ------------------------------------------------------------------------------------------------------------


def test_the_secret_of_a_client_travels_as_every_secret_does(endpoint: TokenEndpoint) -> None:
    key = ClientAssertion(key_pem=Secret("-----KEY"))
    by_key = replace(endpoint, client_secret=None, assertion=key)
    for given_endpoint, secret in ((endpoint, SECRET), (by_key, "-----KEY")):
        sasl = SaslConfig(mechanism="OAUTHBEARER", token=TokenSource(endpoint=given_endpoint, extensions=(("a", "b"),)))
        with pytest.raises(SecretStays):
            pickle.dumps(sasl)
        with handle_secrets(SecretHandling.READ_THERE), pytest.raises(SecretStays):
            pickle.dumps(sasl)
        with handle_secrets(SecretHandling.SENT):
            assert pickle.loads(pickle.dumps(sasl)) == sasl
        assert secret not in repr(sasl)
