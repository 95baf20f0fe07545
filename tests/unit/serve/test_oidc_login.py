"""Login at an identity provider: who gets a session, and everything by which somebody should get none."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from httpx import Response
from starlette.testclient import TestClient

from offsite.kafka.net.http_exchange import HttpLimits
from offsite.model.clock import SystemClock
from offsite.model.selection import parse_selection
from offsite.repository.repository import Repository
from offsite.serve.oidc import provider as provider_module
from offsite.serve.oidc.id_token import ALGORITHMS
from offsite.serve.oidc.login import LOGIN_COOKIE, OidcLogin
from offsite.serve.oidc.settings import OidcFile
from offsite.serve.sessions import COOKIE, Sessions
from offsite.serve.site import Site, SiteSettings
from offsite.serve.tokens import TokenFile
from offsite.stores.posix_store import open_folder
from tests.fake_cluster.site import BACKUP
from tests.oidc_provider import CLIENT, SECRET, OidcProvider, hmac_token, new_key, serving, unsigned_token
from tests.unit.serve.conftest import Connect

PUBLIC = "http://127.0.0.1:8080"
LIMITS = HttpLimits(connect_timeout_s=1.0, read_timeout_s=1.0, answer_bytes=64 * 1024)
FILE = """
issuer: {issuer}
client_id: {client}
client_secret_file: secret
public_url: {public}
groups_claim: groups
rights:
  - {{group: admins, role: restore}}
  - {{group: ops, role: read}}
"""
KEY = new_key("first")


@pytest.fixture
def coordinator(tmp_path: Path) -> Site:
    """Of a repository with a backup without commits: a login needs no more."""
    repository = Repository.init(open_folder(tmp_path / "repository"))
    repository.create_backup(BACKUP, cluster_id="source", selection=parse_selection(["*"]))
    return Site(SiteSettings(repo=str(tmp_path / "repository")))


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    with serving(OidcProvider(key=KEY)) as served:
        yield served


@pytest.fixture
def file(provider: OidcProvider, tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    (tmp_path / "secret").chmod(0o600)
    (path := tmp_path / "oidc.yaml").write_text(FILE.format(issuer=provider.issuer, client=CLIENT, public=PUBLIC))
    return path


class Clock(SystemClock):
    """`ahead_s`: how much later it is than it is."""

    ahead_s = 0.0

    def now_ms(self) -> int:
        return super().now_ms() + int(self.ahead_s * 1000)

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


Browser = TestClient


@pytest.fixture
def browser(connect: Connect, tokens: TokenFile, file: Path, clock: Clock) -> Browser:
    sessions = Sessions(b"k" * 32)
    login = OidcLogin(OidcFile(file), sessions, clock, LIMITS)
    return connect(tokens=tokens, sessions=sessions, oidc=login, clock=clock)


def begin(browser: Browser) -> str:
    """The address of the provider that the browser is sent to."""
    answer = browser.get("/login/oidc")
    assert answer.status_code == 303, answer.text
    return answer.headers["Location"]


def finish(browser: Browser, answer: dict[str, str]) -> Response:
    return browser.get("/login/oidc/done", params=answer)


def log_in(browser: Browser, provider: OidcProvider, **more: str) -> Response:
    return finish(browser, provider.authorize(begin(browser), **more))


def assert_refused(browser: Browser, answer: Response, status: int, text: str) -> None:
    assert answer.status_code == status, answer.text
    assert re.search(text, answer.text), answer.text
    assert COOKIE not in answer.headers.get("set-cookie", "")
    assert browser.get("/api/v1/status").status_code == 401


def test_who_is_in_a_group_with_rights_gets_a_session_with_these_rights(
    browser: Browser, provider: OidcProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    answer = log_in(browser, provider, iss=provider.issuer)
    assert answer.status_code == 200
    assert 'http-equiv="refresh" content="0;url=/"' in answer.text
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly; SameSite=strict" in cookie
    assert browser.get("/api/v1/status").status_code == 200
    assert browser.get("/api/v1/jobs").status_code == 200
    assert browser.post("/api/v1/backups/shop/runs", json={}).status_code == 403
    assert re.search(r"session by=oidc:ann:[0-9a-f]{8} how=oidc sub=1f group=ops from=testclient", caplog.text)


def test_the_request_of_a_login_has_state_nonce_and_a_challenge_of_its_own_each(browser: Browser) -> None:
    urls = [begin(browser) for _ in range(2)]
    for name in ("state", "nonce", "code_challenge"):
        assert len({re.search(rf"{name}=([^&]+)", url).group(1) for url in urls}) == 2  # type: ignore[union-attr]
    assert "code_challenge_method=S256" in urls[0]
    assert f"redirect_uri={PUBLIC.replace(':', '%3A').replace('/', '%2F')}%2Flogin%2Foidc%2Fdone" in urls[0]


def test_a_group_has_the_limits_of_its_line_and_its_session_ends_with_them(
    browser: Browser, provider: OidcProvider, file: Path, clock: Clock
) -> None:
    last_day = datetime.fromtimestamp(clock.now_ms() / 1000, tz=UTC).date() + timedelta(days=1)
    limits = f"role: read, backups: [other*], until: {last_day}"
    file.write_text(file.read_text().replace("role: read", limits))
    log_in(browser, provider)
    assert browser.get("/api/v1/backups").json()["backups"] == []
    assert Repository.open(open_folder(file.parent / "repository")).backups() == (BACKUP,)
    assert browser.get(f"/api/v1/backups/{BACKUP}").status_code == 404
    login, sessions = OidcLogin(OidcFile(file), Sessions(b"k" * 32), clock), Sessions(b"k" * 32)
    session = sessions.read(browser.cookies[COOKIE], now_s=clock.now_ms() // 1000)
    assert session is not None
    assert login.caller(session) is not None
    clock.ahead_s = 2 * 24 * 3600
    assert login.caller(session) is None
    provider.claims |= {"iat": clock.now_ms() // 1000, "exp": clock.now_ms() // 1000 + 60}
    assert_refused(browser, log_in(browser, provider), 403, "none of your groups has rights")


def test_the_first_line_that_names_a_group_counts(browser: Browser, provider: OidcProvider) -> None:
    provider.claims["groups"] = ["nobody", "ops", "admins"]
    log_in(browser, provider)
    assert browser.post("/api/v1/backups/shop/runs", json={"nonsense": 1}).status_code == 400


@pytest.mark.parametrize("groups", [[], ["others"], None, 7, [7, {"ops": 1}], "OPS", {"ops": "ops"}])
def test_who_is_in_no_group_with_rights_gets_a_clear_page_and_no_session(
    browser: Browser, provider: OidcProvider, caplog: pytest.LogCaptureFixture, groups: Any
) -> None:
    caplog.set_level("INFO")
    provider.claims["groups"] = groups
    assert_refused(browser, log_in(browser, provider), 403, "none of your groups has rights here")
    assert re.search(
        r'no_session how=oidc who="oidc:ann:[0-9a-f]{8} sub=1f" from=testclient why="no group has rights', caplog.text
    )


def test_an_address_counts_as_a_group_only_if_the_provider_has_checked_it(
    browser: Browser, provider: OidcProvider, file: Path
) -> None:
    file.write_text(
        file.read_text().replace("groups_claim: groups", "groups_claim: email").replace("ops", "a@b.example")
    )
    provider.claims["email"] = "a@b.example"
    assert_refused(browser, log_in(browser, provider), 403, "none of your groups")
    provider.claims["email_verified"] = True
    assert log_in(browser, provider).status_code == 200


@pytest.mark.parametrize(
    ("claims", "text"),
    [
        ({"nonce": "other"}, "issued for another login"),
        ({"nonce": None}, "issued for another login"),
        ({"iss": "https://evil.example"}, "of another issuer"),
        ({"aud": "other"}, "for another client"),
        ({"aud": None}, "for another client"),
        ({"aud": ["other", 7]}, "for another client"),
        ({"aud": [CLIENT, "other"]}, "issued to another client"),
        ({"aud": [CLIENT, "other"], "azp": "other"}, "issued to another client"),
        ({"azp": "other"}, "issued to another client"),
        ({"exp": 1_000}, "has expired"),
        ({"exp": None}, "has expired"),
        ({"exp": True}, "no time as exp"),
        ({"exp": "2999-01-01"}, "no time as exp"),
        ({"iat": 1_000}, "not issued just now"),
        ({"iat": 9_000_000_000}, "not issued just now"),
        ({"iat": None}, "not issued just now"),
        ({"nbf": 9_000_000_000}, "not valid yet"),
        ({"sub": None}, "names nobody"),
        ({"sub": ""}, "names nobody"),
        ({"sub": 7}, "names nobody"),
    ],
)
def test_a_token_with_other_claims_proves_nothing(
    browser: Browser, provider: OidcProvider, claims: dict[str, Any], text: str
) -> None:
    provider.claims |= claims
    assert_refused(browser, log_in(browser, provider), 502, text)


def test_several_audiences_are_no_harm_where_the_token_was_issued_to_us(
    browser: Browser, provider: OidcProvider
) -> None:
    provider.claims |= {"aud": [CLIENT, "other"], "azp": CLIENT}
    assert log_in(browser, provider).status_code == 200


def test_clocks_may_differ_by_a_minute_and_no_more(browser: Browser, provider: OidcProvider) -> None:
    now_s = int(time.time())
    provider.claims |= {"exp": now_s - 40, "iat": now_s + 40, "nbf": now_s + 40}
    assert log_in(browser, provider).status_code == 200
    provider.claims["exp"] = now_s - 90
    assert log_in(browser, provider).status_code == 502


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "HS256", "RS1", ""])
def test_a_token_that_nobody_signed_proves_nothing(browser: Browser, provider: OidcProvider, algorithm: str) -> None:
    provider.make_token = lambda claims: unsigned_token(claims, algorithm, provider.key.kid or "")
    assert_refused(browser, log_in(browser, provider), 502, "not signed by an asymmetric algorithm")


@pytest.mark.parametrize("what", ["public key", "client secret"])
def test_a_token_that_is_signed_by_what_is_no_secret_proves_nothing(
    browser: Browser, provider: OidcProvider, what: str
) -> None:
    secret = provider.key.as_pem(private=False) if what == "public key" else SECRET.encode()
    provider.make_token = lambda claims: hmac_token(claims, secret, provider.key.kid or "")
    assert_refused(browser, log_in(browser, provider), 502, "not signed by an asymmetric algorithm")
    assert not [algorithm for algorithm in ALGORITHMS if algorithm.startswith(("HS", "none"))]


def test_a_token_of_another_key_with_the_same_id_proves_nothing(browser: Browser, provider: OidcProvider) -> None:
    provider.published, provider.key = [KEY], new_key("first")
    assert_refused(browser, log_in(browser, provider), 502, "signature of the ID token is wrong")


def test_a_key_within_the_token_itself_counts_for_nothing(browser: Browser, provider: OidcProvider) -> None:
    provider.published, provider.key = [KEY], new_key("first")
    provider.header = {"jwk": provider.key.as_dict(private=False)}
    assert_refused(browser, log_in(browser, provider), 502, "signature of the ID token is wrong")


def test_a_changed_key_is_read_once_and_unknown_ones_not_each_time(
    browser: Browser, provider: OidcProvider, clock: Clock
) -> None:
    assert log_in(browser, provider).status_code == 200
    provider.rotate("second")
    clock.ahead_s = 31
    assert log_in(browser, provider).status_code == 200
    assert provider.asked.count("/jwks") == 2
    provider.published, second = [provider.key], provider.key
    provider.rotate("third")
    for _ in range(3):
        assert log_in(browser, provider).status_code == 502
    assert provider.asked.count("/jwks") == 2
    provider.key = second
    assert log_in(browser, provider).status_code == 200


def test_a_key_that_was_taken_back_counts_for_an_hour_at_most(
    browser: Browser, provider: OidcProvider, clock: Clock
) -> None:
    assert log_in(browser, provider).status_code == 200
    provider.published = [new_key("other")]
    clock.ahead_s = 3_700
    provider.claims |= {"iat": int(clock.now_ms() / 1000), "exp": int(clock.now_ms() / 1000) + 60}
    late = log_in(browser, provider)
    assert (late.status_code, "no key that may have signed" in late.text) == (502, True)


def test_the_answer_to_another_browser_logs_in_nobody(browser: Browser, provider: OidcProvider) -> None:
    """Somebody sends a victim the address of the end of a login of his own: he would see what the victim does."""
    answer = provider.authorize(begin(browser))
    browser.cookies.clear()
    assert_refused(browser, finish(browser, answer), 400, "begun in another browser")
    begin(browser)
    assert_refused(browser, finish(browser, answer), 400, "begun in another browser")


def test_an_answer_that_is_refused_ends_no_login_that_began_since(browser: Browser, provider: OidcProvider) -> None:
    """In another tab, or by a link on a foreign page."""
    first = provider.authorize(begin(browser))
    second = provider.authorize(begin(browser))
    assert_refused(browser, finish(browser, first), 400, "begun in another browser or window")
    assert finish(browser, second).status_code == 200


def test_an_answer_counts_once(browser: Browser, provider: OidcProvider) -> None:
    answer, login = provider.authorize(begin(browser)), browser.cookies[LOGIN_COOKIE]
    assert finish(browser, answer).status_code == 200
    browser.cookies.clear()
    browser.cookies.set(LOGIN_COOKIE, login)
    provider.codes[answer["code"]] = {}
    assert_refused(browser, finish(browser, answer), 400, "finished before")


def test_a_login_that_began_long_ago_does_not_end(browser: Browser, provider: OidcProvider, clock: Clock) -> None:
    answer = provider.authorize(begin(browser))
    clock.ahead_s = 601
    assert_refused(browser, finish(browser, answer), 400, "too long ago")


@pytest.mark.parametrize("cookie", ["", "|", "a|1|b", "||", "x|y|z", "\udcff"])
def test_a_made_up_login_does_not_end(browser: Browser, cookie: str) -> None:
    browser.cookies.set(LOGIN_COOKIE, cookie.encode("utf-8", "replace").decode())
    assert finish(browser, {"code": "x", "state": "x"}).status_code == 400


def test_an_answer_of_another_provider_is_refused(browser: Browser, provider: OidcProvider) -> None:
    assert_refused(browser, log_in(browser, provider, iss="https://evil.example"), 400, "not from 127.0.0.1")
    assert "/token" not in provider.asked


def test_an_answer_without_its_issuer_is_refused_where_the_provider_names_itself(
    browser: Browser, provider: OidcProvider
) -> None:
    provider.document["authorization_response_iss_parameter_supported"] = True
    assert_refused(browser, log_in(browser, provider), 400, "not from 127.0.0.1")
    assert log_in(browser, provider, iss=provider.issuer).status_code == 200


def test_what_comes_twice_in_an_answer_is_left_out(browser: Browser, provider: OidcProvider) -> None:
    answer = provider.authorize(begin(browser))
    twice = browser.get(f"/login/oidc/done?code={answer['code']}&code=x&state={answer['state']}")
    assert_refused(browser, twice, 400, "has no code")


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"issuer": "https://evil.example"}, "calls itself https://evil.example"),
        ({"issuer": None}, "calls itself None"),
        ({"token_endpoint": "http://evil.example/token"}, "token_endpoint is not an https URL"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint is not an https URL"),
        ({"jwks_uri": "file:///etc/passwd"}, "jwks_uri is not an https URL"),
        ({"jwks_uri": None}, "jwks_uri is not an https URL"),
        ({"jwks_uri": "https://a:99999/"}, "jwks_uri is not a URL"),
        ({"end_session_endpoint": "http://evil.example/"}, "end_session_endpoint is not an https URL"),
    ],
)
def test_a_provider_that_leads_elsewhere_is_not_followed(
    browser: Browser, provider: OidcProvider, document: dict[str, Any], text: str
) -> None:
    provider.document = document
    assert_refused(browser, browser.get("/login/oidc"), 502, text)


def test_a_provider_that_refuses_somebody_is_quoted(browser: Browser, provider: OidcProvider) -> None:
    answer = {"error": "access_denied<script>", "state": provider.authorize(begin(browser))["state"]}
    assert_refused(browser, finish(browser, answer), 403, r"refused this login \(access_denied&lt;script&gt;\)")


def test_a_wrong_code_or_a_wrong_secret_is_told_without_the_secret(
    browser: Browser, provider: OidcProvider, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    answer = provider.authorize(begin(browser))
    assert_refused(browser, finish(browser, {**answer, "code": "forged"}), 502, "did not complete this login")
    assert "answers 400, invalid_grant" in caplog.text
    assert SECRET not in caplog.text
    assert SECRET not in repr(OidcFile(file)())


def test_an_answer_that_is_too_large_is_not_read(browser: Browser, provider: OidcProvider) -> None:
    provider.padding = 100_000
    assert_refused(browser, browser.get("/login/oidc"), 502, "does not answer")


def test_a_dead_provider_is_told_and_left_alone_for_a_moment(
    browser: Browser, provider: OidcProvider, clock: Clock, secrets: dict[str, str]
) -> None:
    provider.delay_s = 2
    began_s = time.monotonic()
    assert_refused(browser, browser.get("/login/oidc"), 502, "does not answer")
    assert time.monotonic() - began_s < 1.9
    before = len(provider.asked)
    assert browser.get("/login/oidc").status_code == 502
    assert len(provider.asked) == before
    browser.headers["Authorization"] = f"Bearer {secrets['read']}"
    assert browser.get("/api/v1/status").status_code == 200
    provider.delay_s, clock.ahead_s = 0, 10
    assert browser.get("/login/oidc").status_code == 303


def test_a_slow_provider_holds_up_four_threads_at_most(
    browser: Browser, provider: OidcProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_module, "ASKED_AT_ONCE", 1)
    release, answer = threading.Event(), provider.discovery
    waiting = threading.Event()

    def slow() -> dict[str, Any]:
        waiting.set()
        release.wait(5)
        return answer()

    monkeypatch.setattr(OidcProvider, "discovery", lambda _: slow())
    thread = threading.Thread(target=lambda: browser.get("/login/oidc"))
    thread.start()
    assert waiting.wait(5)
    began_s = time.monotonic()
    late = browser.get("/login/oidc")
    assert (late.status_code, time.monotonic() - began_s < 0.9) == (503, True)
    assert "others wait for it already" in late.text
    release.set()
    thread.join(10)


def test_a_session_ends_at_logout_with_every_copy_of_its_cookie(
    browser: Browser, provider: OidcProvider, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    log_in(browser, provider)
    first = browser.cookies[COOKIE]
    clock.ahead_s = 120
    browser.get("/")
    copied = browser.cookies[COOKIE]
    assert copied != first
    word = re.search(r'name="word" value="([0-9a-f]+)"', browser.get("/").text).group(1)  # type: ignore[union-attr]
    out = browser.post("/logout", data={"word": word})
    assert (out.status_code, out.headers["Location"]) == (303, "/login?out=1")
    assert "session_ended by=oidc:ann" in caplog.text
    for cookie in (first, copied):
        browser.cookies.set(COOKIE, cookie)
        assert browser.get("/api/v1/status").status_code == 401
    shown = browser.get("/login?out=1").text
    assert f"{provider.issuer}/logout?client_id=offsite&amp;post_logout_redirect_uri=" in shown


def test_a_group_that_loses_its_rights_loses_its_sessions(browser: Browser, provider: OidcProvider, file: Path) -> None:
    log_in(browser, provider)
    text = file.read_text()
    for other in (
        text.replace("group: ops", "group: opz"),
        text.replace("client_id: offsite", "client_id: new"),
        "broken",
    ):
        file.write_text(other)
        assert browser.get("/api/v1/status").status_code == 401
        file.write_text(text)
        assert browser.get("/api/v1/status").status_code == 200
    file.write_text(text.replace("role: read", "role: watch"))
    assert browser.get("/api/v1/jobs").status_code == 403


def test_while_the_file_is_broken_the_page_says_so(browser: Browser, file: Path) -> None:
    file.write_text("nonsense")
    assert browser.get("/login/oidc").status_code == 503
    assert "settings of the identity provider are not valid" in browser.get("/login/oidc").text


def test_no_name_of_a_person_is_that_of_a_token_or_of_another_person(
    browser: Browser, provider: OidcProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for sub in ("1f", "2f"):
        provider.claims |= {"sub": sub, "preferred_username": "reader admin|\n<b>"}
        log_in(browser, provider)
    names = set(re.findall(r"session by=(\S+)", caplog.text))
    assert len(names) == 2
    assert all(re.fullmatch(r"oidc:reader_admin___b_:[0-9a-f]{8}", name) for name in names)


def test_without_a_provider_there_is_no_login_there(connect: Connect, tokens: TokenFile) -> None:
    client = connect(tokens=tokens)
    assert client.get("/login/oidc").status_code == 404
    assert client.get("/login/oidc/done?code=x&state=y").status_code == 404
    assert "Log in at" not in client.get("/login").text
