"""Sessions of browsers: when one counts, and everything by which it ends."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from offsite.model.clock import SystemClock
from offsite.serve.sessions import COOKIE, IDLE_S, LASTS_S, Sessions
from offsite.serve.tokens import TokenFile
from tests.unit.serve.conftest import Connect

KEY = b"k" * 32


class Clock(SystemClock):
    ahead_s = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_s * 1000


def used(sessions: Sessions, cookie: str, *, each_s: int, upto_s: int) -> str:
    """The newest cookie of a session that is used every `each_s` seconds."""
    for now_s in range(0, upto_s, each_s):
        session = sessions.read(cookie, now_s=now_s)
        assert session is not None, now_s
        cookie = sessions.renewed(session, now_s=now_s) or cookie
    return cookie


def test_a_session_is_one_of_ours_and_ends() -> None:
    sessions = Sessions(KEY)
    cookie = sessions.begin("ann", now_s=1_000)
    session = sessions.read(cookie, now_s=1_001)
    assert session is not None
    assert session.name == "ann"
    assert sessions.read(cookie.replace("ann", "bob"), now_s=1_001) is None
    assert Sessions(b"x" * 32).read(cookie, now_s=1_001) is None
    for junk in ("", "|||", "a|b|c|d", "2|a|b|c|d|e|1|1|\udcff", cookie + "0", f"2{cookie}", cookie.upper()):
        assert sessions.read(junk, now_s=1_001) is None


def test_an_unused_session_ends_early_and_a_used_one_at_its_time() -> None:
    sessions = Sessions(KEY)
    cookie = sessions.begin("ann", now_s=0)
    assert sessions.read(cookie, now_s=IDLE_S - 1) is not None
    assert sessions.read(cookie, now_s=IDLE_S) is None
    newest = used(sessions, cookie, each_s=IDLE_S - 1, upto_s=LASTS_S)
    assert sessions.read(newest, now_s=LASTS_S - 1) is not None
    assert sessions.read(newest, now_s=LASTS_S) is None


def test_all_cookies_of_a_session_end_with_it_and_have_one_form_word() -> None:
    sessions = Sessions(KEY)
    first = sessions.begin("ann", now_s=0)
    second = used(sessions, first, each_s=100, upto_s=300)
    assert first != second
    assert sessions.form_word(first) == sessions.form_word(second) != sessions.form_word("")
    sessions.end(first, now_s=300)
    assert [sessions.read(cookie, now_s=300) for cookie in (first, second)] == [None, None]


def test_nothing_is_remembered_of_sessions_that_a_stranger_made_up(tmp_path: Path) -> None:
    """He would fill the memory of a coordinator, and slow down each logout, with times that never come."""
    sessions = Sessions(KEY, ended_file=tmp_path / "ended")
    for number in range(100):
        sessions.end(f"2|{number}|ann|||s|{10**20}|0|{number}", now_s=1_000)
    sessions.end(sessions.begin("ann", now_s=1_000), now_s=1_001)
    assert len((tmp_path / "ended").read_text().splitlines()) == 1


def test_a_session_that_was_logged_out_stays_dead_after_a_restart_and_elsewhere(tmp_path: Path) -> None:
    one, other = (Sessions(KEY, ended_file=tmp_path / "key.ended") for _ in range(2))
    cookies = [one.begin("ann", now_s=0), one.begin("ann", now_s=0), one.begin("bob", now_s=0)]
    assert all(other.read(cookie, now_s=1) for cookie in cookies)
    one.end(cookies[0], now_s=1)
    other.end(cookies[1], now_s=1)
    for sessions in (one, other, Sessions(KEY, ended_file=tmp_path / "key.ended")):
        assert [bool(sessions.read(cookie, now_s=2)) for cookie in cookies] == [False, False, True]
    (tmp_path / "key.ended").unlink()
    assert one.read(cookies[0], now_s=2) is None, "what it knows, it keeps"
    assert (tmp_path / "key.ended.lock").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", [b"\xff\xfe", b"a b c d\n", b"ann\n" * 9, b"x 1 1 1 1\n", b"x y -1 9\n"])
def test_lines_that_no_coordinator_wrote_end_nothing(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "ended").write_bytes(text)
    sessions = Sessions(KEY, ended_file=tmp_path / "ended")
    cookie = sessions.begin("ann", now_s=0)
    assert sessions.read(cookie, now_s=1) is not None
    sessions.end(cookie, now_s=1)
    assert Sessions(KEY, ended_file=tmp_path / "ended").read(cookie, now_s=1) is None


def test_ended_sessions_are_forgotten_when_they_would_have_ended(tmp_path: Path) -> None:
    sessions = Sessions(KEY, ended_file=tmp_path / "ended")
    for begun_s in (0, 2 * LASTS_S):
        sessions.end(sessions.begin("ann", now_s=begun_s), now_s=begun_s + 1)
    assert len((tmp_path / "ended").read_text().splitlines()) == 1


def test_a_place_that_cannot_be_written_is_told_and_ends_sessions_here(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sessions = Sessions(KEY, ended_file=tmp_path / "absent" / "ended")
    cookie = sessions.begin("ann", now_s=0)
    sessions.end(cookie, now_s=1)
    assert sessions.read(cookie, now_s=1) is None
    assert "a copied cookie may be valid" in caplog.text


def logged_in(client: TestClient, token: str) -> str:
    word = re.search(r'name="word" value="([0-9a-f]+)"', client.get("/login").text)
    assert word is not None
    assert client.post("/login", data={"word": word[1], "token": token}).status_code == 303
    return client.cookies[COOKIE]


def test_a_login_begins_a_new_session_and_ends_the_one_before(
    connect: Connect, tokens: TokenFile, secrets: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody's cookie, put into a browser before, is that of the session."""
    caplog.set_level("INFO")
    client = connect(tokens=tokens)
    planted = logged_in(client, secrets["read"])
    assert logged_in(client, secrets["watch"]) != planted
    assert "session by=reader how=token from=testclient" in caplog.text
    client.cookies.set(COOKIE, planted)
    assert client.get("/api/v1/status").status_code == 401


def test_use_renews_a_session_and_what_a_page_asks_for_by_itself_does_not(
    connect: Connect, tokens: TokenFile, secrets: dict[str, str]
) -> None:
    clock = Clock()
    client = connect(tokens=tokens, clock=clock)
    first = logged_in(client, secrets["read"])
    clock.ahead_s = IDLE_S - 60
    client.get("/api/v1/status", headers={"Sec-Fetch-Mode": "cors"})
    assert client.cookies[COOKIE] == first
    assert "SameSite=strict" in client.get("/").headers["set-cookie"]
    clock.ahead_s = IDLE_S + 60
    assert client.get("/api/v1/status").status_code == 200
    clock.ahead_s = 2 * IDLE_S + 60
    assert client.get("/api/v1/status").status_code == 401


def test_a_session_ends_with_the_line_of_its_token(
    connect: Connect, tokens: TokenFile, secrets: dict[str, str], tmp_path: Path
) -> None:
    client, file = connect(tokens=tokens), tmp_path / "tokens"
    logged_in(client, secrets["read"])
    assert client.get("/api/v1/status").status_code == 200
    text = file.read_text()
    line = next(line for line in text.splitlines() if line.startswith("reader "))
    for other in ("", line[:-1] + ("0" if line[-1] != "0" else "1")):
        file.write_text(text.replace(line, other))
        assert client.get("/api/v1/status").status_code == 401
