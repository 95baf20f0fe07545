"""The server of metrics and health: what it answers, and what clients cannot do to it."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from offsite.model.clock import SystemClock
from offsite.model.errors import BadOption
from offsite.monitor import backup_series, server
from offsite.monitor import server as served
from offsite.monitor.server import ListenAddress, MonitorServer, parse_address
from offsite.monitor.view import silence_limit_s
from offsite.monitor.waiting import Waiting
from tests.unit.monitor.views import FINE, FULL, NEW, OUTAGE

WAIT_S = 30.0


class AheadClock(SystemClock):
    """The machine's clock, and what the test adds to it."""

    ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


@pytest.fixture
def clock() -> AheadClock:
    return AheadClock()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets do not end by themselves: what ends them is what is tested."""
    monkeypatch.setattr(served._Handler, "timeout", 2 * WAIT_S)


@pytest.fixture
def monitor(clock: AheadClock) -> Iterator[MonitorServer]:
    with MonitorServer(FULL, listen=parse_address("0"), clock=clock) as started:
        yield started


def ask(monitor: MonitorServer, path: str, method: str = "GET", **headers: str) -> tuple[int, str, dict[str, str]]:
    address = monitor.address
    connection = http.client.HTTPConnection(address.host, address.port, timeout=WAIT_S)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.getheaders())
    finally:
        connection.close()


def opened(monitor: MonitorServer, sent: bytes = b"") -> socket.socket:
    connection = socket.create_connection((monitor.address.host, monitor.address.port), timeout=WAIT_S)
    connection.sendall(sent)
    return connection


def read_all(connection: socket.socket) -> bytes:
    """What comes until the other end closes, however it does."""
    parts = []
    try:
        while part := connection.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def handlers() -> int:
    return sum(thread.name == "monitor-connection" for thread in threading.enumerate())


def test_a_free_port_is_chosen_and_told(monitor: MonitorServer) -> None:
    assert monitor.address.host == "127.0.0.1"
    assert monitor.address.port > 0
    assert ask(monitor, "/healthz")[0] == 200


def test_a_scrape_is_what_was_asked_for(monitor: MonitorServer) -> None:
    status, text, headers = ask(monitor, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert (status, headers["Content-Type"]) == (200, "application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert "offsite_rpo_seconds" in {family.name for family in text_string_to_metric_families(text)}
    status, text, headers = ask(monitor, "/metrics?x=1")
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert 'offsite_head_commit{backup="shop"} 4711.0' in text


def test_what_is_shown_last_is_answered_at_once(monitor: MonitorServer) -> None:
    assert ask(monitor, "/readyz")[:2] == (503, ask(monitor, "/readyz")[1])
    assert "OFF-1501" in ask(monitor, "/readyz")[1]
    assert "offsite_head_commit{" in ask(monitor, "/metrics")[1]
    monitor.show(replace(FINE, head_commit=5000))
    assert ask(monitor, "/readyz")[:2] == (200, "up to date: 5000 is the newest commit\n")
    assert 'offsite_head_commit{backup="shop"} 5000.0' in ask(monitor, "/metrics")[1]


def test_a_loop_that_says_nothing_is_stuck_until_it_speaks(monitor: MonitorServer, clock: AheadClock) -> None:
    monitor.show(NEW)
    assert ask(monitor, "/healthz")[:2] == (200, "alive: starting\n")
    clock.ahead_s = silence_limit_s(NEW) + 1
    status, text, _ = ask(monitor, "/healthz")
    assert (status, text.split(":")[0], text.count("\n")) == (503, "stuck", 1)
    assert ask(monitor, "/readyz")[0] == 503
    monitor.show(replace(NEW, outage=OUTAGE))
    assert ask(monitor, "/healthz")[:2] == (200, "alive: outage\n")


def test_signs_of_life_of_a_round_are_not_its_end(clock: AheadClock) -> None:
    waiting = Waiting(subject="broker-2:9092 has not answered", waited_s=16.0)
    fine = replace(FINE, interval_s=1)
    with MonitorServer(NEW, listen=parse_address("0"), clock=clock, waiting=lambda: waiting) as monitor:
        monitor.show(fine)
        assert ask(monitor, "/readyz")[0] == 200
        clock.ahead_s = 16
        monitor.show(fine)
        status, text, _ = ask(monitor, "/readyz")
        assert (status, text.partition(": ")[2]) == (503, "broker-2:9092 has not answered, for 16.0 s\n")
        assert ask(monitor, "/healthz")[0] == 200
        monitor.show(replace(fine, rounds=fine.rounds + 1))
        assert ask(monitor, "/readyz")[0] == 200


def test_other_paths_and_methods_are_refused_without_an_echo(monitor: MonitorServer) -> None:
    assert ask(monitor, "/secret-word") == (404, "there is /metrics /healthz /readyz\n", ask(monitor, "/x")[2])
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "FROBNICATE"):
        status, text, headers = ask(monitor, "/metrics", method)
        assert (status, text, headers["Allow"]) == (405, "Method Not Allowed\n", "GET, HEAD")
    assert ask(monitor, "/healthz", "HEAD")[:2] == (200, "")
    for nonsense in (b"secret-word\r\n\r\n", b"GET /secret-word HTTP/9.9\r\n\r\n", b"\x16\x03\x01\xff\r\n\r\n"):
        with opened(monitor, nonsense) as connection:
            assert b"secret-word" not in read_all(connection)
    assert ask(monitor, "/healthz")[0] == 200


def test_a_body_is_not_waited_for(monitor: MonitorServer) -> None:
    with opened(monitor, b"POST /metrics HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\n") as connection:
        assert read_all(connection).startswith(b"HTTP/1.0 405 ")


def test_whoever_is_slow_loses_the_connection_and_holds_nobody_up(monitor: MonitorServer, clock: AheadClock) -> None:
    with opened(monitor, b"GET /metrics HTTP/1.1\r\nX: ") as slow:
        until(lambda: handlers() == 1)
        assert ask(monitor, "/metrics")[0] == 200
        for _ in range(3):  # each byte is in time for a limit that would count from the last byte
            slow.sendall(b"x")
        clock.ahead_s = served.CONNECTION_S + 1
        assert read_all(slow) == b""
    until(lambda: not handlers())


@pytest.mark.slow
def test_a_client_that_does_not_read_its_answer_is_let_go(clock: AheadClock, patient: None) -> None:
    topics = tuple(replace(FULL.topics[0], topic=f"{n:0200}") for n in range(10_000))
    large = MonitorServer(replace(FULL, topics=topics), listen=parse_address("0"), clock=clock, topics_max=len(topics))
    with large, opened(large, b"GET /metrics HTTP/1.1\r\n\r\n") as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        until(lambda: bool(lazy.recv(1, socket.MSG_PEEK)))
        assert handlers() == 1
        clock.ahead_s = served.CONNECTION_S + 1
        until(lambda: not handlers())


def test_whoever_holds_all_connections_keeps_nobody_out_and_makes_no_more_threads(monitor: MonitorServer) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(opened(monitor)) for _ in range(served.CONNECTIONS_MAX)]
        until(lambda: handlers() == served.CONNECTIONS_MAX)
        for _ in range(5):
            stack.enter_context(opened(monitor))
        assert [read_all(each) for each in silent[:5]] == [b""] * 5
        until(lambda: handlers() == served.CONNECTIONS_MAX)
        assert ask(monitor, "/healthz")[0] == 200
    until(lambda: not handlers())
    assert ask(monitor, "/healthz")[0] == 200


def test_many_scrapes_cost_no_more_than_one_a_second(
    monitor: MonitorServer, clock: AheadClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    monkeypatch.setattr(server, "expose", lambda *a, **k: made.append(1) or backup_series.expose(*a, **k))
    clock.monotonic_s = lambda: 1000.0 + clock.ahead_s  # type: ignore[method-assign]
    for _ in range(20):
        ask(monitor, "/metrics")
    assert len(made) == 1
    clock.ahead_s = 1.0
    ask(monitor, "/metrics")
    assert len(made) == 2


def test_a_mistake_of_ours_is_told_to_the_journal_and_not_to_the_client(
    monitor: MonitorServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    word = "secret" + "-word"

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError(word)

    monkeypatch.setattr(server, "expose", broken)
    with opened(monitor, b"GET /metrics HTTP/1.0\r\n\r\n") as connection:
        assert read_all(connection) == b""
    until(lambda: "RuntimeError" in caplog.text)
    assert word not in caplog.text
    assert ask(monitor, "/healthz")[0] == 200


def test_a_port_that_is_taken_is_refused_with_a_hint(monitor: MonitorServer) -> None:
    taken = MonitorServer(NEW, listen=monitor.address, clock=SystemClock())
    with pytest.raises(BadOption, match=f"cannot listen on {monitor.address}"):
        taken.start()
    taken.stop()
    with pytest.raises(BadOption):
        MonitorServer(NEW, listen=ListenAddress(host="203.0.113.1", port=9464), clock=SystemClock()).start()


def test_nothing_is_left_when_it_stops(clock: AheadClock, patient: None) -> None:
    monitor = MonitorServer(NEW, listen=parse_address("0"), clock=clock).start()
    address = monitor.address
    with opened(monitor, b"GET /") as halfway:
        until(lambda: handlers() == 1)
        monitor.stop()
        monitor.stop()
        assert read_all(halfway) == b""
    until(lambda: not handlers())
    assert not [thread for thread in threading.enumerate() if thread.name == "monitor"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.host, address.port), timeout=WAIT_S).close()
    MonitorServer(NEW, listen=address, clock=clock).start().stop()
