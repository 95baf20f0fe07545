"""Messages and pings arrive, and servers that hang, fail or flood neither delay nor fail anything."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from offsite.model.clock import SystemClock
from offsite.model.errors import BadOption
from offsite.model.secret import Secret
from offsite.model.untrusted.text import parse_properties
from offsite.notify.addresses import Addresses, PingAddress, SendAddress, SendWhen, parse_addresses, read_addresses
from offsite.notify.event import Event, EventKind
from offsite.notify.memory import SAME_AGAIN_MS, ToldMemory
from offsite.notify.messenger import Messenger
from offsite.notify.ping import Pinger
from offsite.notify.teller import Delivery, Receiver, Teller
from tests.unit.notify.test_hooks import HOSTILE, event

Answer = Callable[[BaseHTTPRequestHandler], None]


def ok(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", "2")
    request.end_headers()
    request.wfile.write(b"OK")


def server_error(request: BaseHTTPRequestHandler) -> None:
    request.send_error(500)


def redirect(request: BaseHTTPRequestHandler) -> None:
    request.send_response(302)
    request.send_header("Location", "http://127.0.0.2:9/stolen")
    request.send_header("Content-Length", "0")
    request.end_headers()


def hang(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    for _ in range(600):
        request.wfile.write(b"x")
        request.wfile.flush()
        time.sleep(0.1)


def flood(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    while True:
        request.wfile.write(b"x" * (1 << 20))


class Requests(list[tuple[str, bytes]]):
    """Paths and bodies that a server got."""

    port = 0


@contextmanager
def served(answer: Answer) -> Iterator[Requests]:
    requests = Requests()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append((self.path, self.rfile.read(int(self.headers["Content-Length"] or 0))))
            try:
                answer(self)
            except OSError:  # the client has gone
                self.close_connection = True

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.block_on_close = True, False
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    requests.port = server.server_address[1]
    try:
        yield requests
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def _own_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def delivered(receiver: Receiver, *events: Event) -> list[Delivery]:
    teller = Teller([receiver], clock=SystemClock(), name="messages")
    for happened in events:
        teller.tell(happened)
    assert teller.settle(within_s=60)
    return teller.tally.deliveries


def messenger(*urls: str, when: SendWhen = SendWhen.DEFAULT, timeout_s: float = 20) -> Messenger:
    addresses = tuple(
        SendAddress(url=Secret(url), when=when, scheme=url.split("://", maxsplit=1)[0], line=line)
        for line, url in enumerate(urls, start=1)
    )
    return Messenger(addresses=addresses, memory=ToldMemory("orders"), timeout_s=timeout_s)


def pinger(port: int, *, timeout_s: float = 20, path: str = "/s3cret") -> Pinger:
    url = Secret(f"http://127.0.0.1:{port}{path}")
    return Pinger(address=PingAddress(url=url, commands=frozenset(), line=1), timeout_s=timeout_s)


@pytest.mark.slow
def test_a_message_has_what_a_person_wants_to_know() -> None:
    with served(ok) as requests:
        lost = event(details=("  1 hole in orders/0: offsets 5 to 9", "hint: \x1b[2J"))
        (delivery,) = delivered(messenger(f"json://u:s3cret@127.0.0.1:{requests.port}/"), lost)

    document = json.loads(requests[0][1])
    assert delivery.worked
    assert delivery.to == "message of line 1 (json)"
    assert document["title"] == "offsite: backup run of orders: failed"
    assert document["type"] == "failure"
    for part in (
        "no broker answers",
        "\n1 hole in orders/0: offsets 5 to 9\n",
        "error OFF-1501",
        "hint: is the network up?",
        "exit code 15 after",
    ):
        assert part in document["message"]


@pytest.mark.slow
def test_a_hostile_name_stays_text() -> None:
    with served(ok) as requests:
        delivered(messenger(f"json://127.0.0.1:{requests.port}/"), event(message=HOSTILE, backup=HOSTILE))

    document = json.loads(requests[0][1])
    assert "\\ud800" in document["message"]
    assert all(line.isprintable() for line in document["message"].splitlines())
    assert document["title"].isprintable()


@pytest.mark.slow
def test_a_mail_is_sent() -> None:
    with smtp_sink() as (port, mails):
        url = f"mailto://127.0.0.1:{port}/?from=offsite@example.org&to=me@example.org&mode=insecure"
        (delivery,) = delivered(messenger(url), event())

    assert delivery.worked
    assert "offsite: backup run of orders: failed" in mails[0]
    assert "OFF-1501" in mails[0]


@contextmanager
def smtp_sink() -> Iterator[tuple[int, list[str]]]:
    """A server that takes one mail."""
    mails: list[str] = []

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rwb", buffering=0) as stream:
            stream.write(b"220 sink\r\n")
            while line := stream.readline():
                match line.split(b" ")[0].strip().upper():
                    case b"DATA":
                        stream.write(b"354 go on\r\n")
                        mail = b""
                        while (part := stream.readline()) != b".\r\n":
                            mail += part
                        mails.append(mail.decode())
                        stream.write(b"250 taken\r\n")
                    case b"QUIT":
                        stream.write(b"221 bye\r\n")
                        return
                    case _:
                        stream.write(b"250 fine\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield listener.getsockname()[1], mails
        thread.join(10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "problem", "longest_s"),
    [
        (server_error, "it was not accepted, or nobody answers", 20.0),
        pytest.param(redirect, "it was not accepted, or nobody answers", 20.0, marks=pytest.mark.soak),
        pytest.param(hang, "it takes too long", 20.0, marks=pytest.mark.soak),
        pytest.param(flood, "", 20.0, marks=pytest.mark.soak),
    ],
)
def test_a_server_that_misbehaves_holds_nobody_up(answer: Answer, problem: str, longest_s: float) -> None:
    began_s = time.monotonic()
    with served(answer) as requests, served(ok) as good:
        urls = [f"json://u:s3cret@127.0.0.1:{port}/" for port in (requests.port, good.port)]
        deliveries = delivered(messenger(*urls, timeout_s=15), event())

    assert time.monotonic() - began_s < longest_s
    assert requests
    if problem:
        assert [delivery.problem for delivery in deliveries] == [problem, ""]
    assert not deliveries[0].worked
    assert "s3cret" not in repr(deliveries)


@pytest.mark.parametrize(
    "answer", [hang, *(pytest.param(answer, marks=pytest.mark.soak) for answer in (server_error, redirect, flood))]
)
def test_a_ping_to_a_server_that_misbehaves_holds_nobody_up(answer: Answer) -> None:
    began_s = time.monotonic()
    with served(answer) as requests:
        (delivery,) = delivered(pinger(requests.port, timeout_s=5), event())

    assert 1 <= len(requests) <= 3
    assert not delivery.worked
    assert "s3cret" not in repr(delivery)
    assert time.monotonic() - began_s < 9


@pytest.mark.slow
@pytest.mark.soak
def test_nobody_at_an_address_is_told_and_a_wrong_url_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    deliveries = delivered(messenger(f"json://127.0.0.1:{port}/", "nonsense://s3cret"), event())

    assert [delivery.problem for delivery in deliveries] == [
        "it was not accepted, or nobody answers",
        "Apprise does not understand the URL",
    ]
    assert delivered(pinger(port, timeout_s=3), event())[0].problem == "Connection refused"


@pytest.mark.slow
def test_a_redirect_leads_nowhere() -> None:
    def lead_away(request: BaseHTTPRequestHandler) -> None:
        request.send_response(307)
        request.send_header("Location", f"http://127.0.0.1:{other.port}/stolen")
        request.send_header("Content-Length", "0")
        request.end_headers()

    with served(ok) as other, served(lead_away) as first:
        (sent,) = delivered(messenger(f"json://127.0.0.1:{first.port}/"), event())
        (pinged,) = delivered(pinger(first.port, timeout_s=3), event())

    assert other == []
    assert "it answered 307, and redirects are not followed" in pinged.problem
    assert not sent.worked


def test_pings_begin_succeed_and_fail() -> None:
    kinds = [
        EventKind.BEGAN,
        EventKind.ROUND,
        EventKind.OUTAGE,
        EventKind.OUTAGE_OVER,
        EventKind.PARTIAL,
        EventKind.SUCCEEDED,
    ]
    with served(ok) as requests:
        delivered(pinger(requests.port, path="/abc/?x=1"), *(event(kind) for kind in kinds))

    assert [path for path, _ in requests] == [
        "/abc/start?x=1",
        "/abc?x=1",
        "/abc/fail?x=1",
        "/abc?x=1",
        "/abc/fail?x=1",
        "/abc?x=1",
    ]
    assert json.loads(requests[0][1])["event"] == "began"


@pytest.mark.slow
def test_the_same_message_comes_once_an_hour_and_the_end_of_it_at_once() -> None:
    def at(minute: int, kind: EventKind = EventKind.FAILED, error: str = "OFF-1501") -> Event:
        return event(kind, error=error, at_ms=minute * 60_000)

    with served(ok) as requests:
        sender = messenger(f"json://127.0.0.1:{requests.port}/")
        delivered(sender, *(at(minute) for minute in range(0, 60, 20)))
        delivered(sender, at(61), at(62, error="OFF-1601"))
        delivered(sender, at(63, EventKind.SUCCEEDED), at(64, EventKind.SUCCEEDED))

    documents = [json.loads(body) for _, body in requests]
    assert [document["title"].removeprefix("offsite: backup run of orders: ") for document in documents] == [
        "failed",
        "failed",
        "failed",
        "succeeded, and works again",
    ]
    assert "2 messages like the last one left out" in documents[1]["message"]
    assert "left out" not in documents[2]["message"]
    assert SAME_AGAIN_MS == 60 * 60_000


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of messages that are sent; sending works."""
    bodies = list[str]()

    def send(addresses: list[SendAddress], _title: str, body: str, *_: object) -> list[str]:
        bodies.append(body.splitlines()[0])
        return [""] * len(addresses)

    monkeypatch.setattr("offsite.notify.messenger._sent", send)
    return bodies


def test_another_trouble_is_told_at_once_and_the_same_one_with_other_figures_is_not(sent: list[str]) -> None:
    def at(minute: int, message: str, *details: str, kind: EventKind = EventKind.PARTIAL) -> Event:
        return event(kind, error="", message=message, details=details, at_ms=minute * 60_000)

    sender = messenger("json://a")
    delivered(sender, at(0, "one", "shop: last backup 25 h 03 min ago"), at(5, "two", "shop: last backup 2 d 1 h ago"))
    delivered(sender, at(10, "three", "shop: last backup 2 d 1 h ago", "Lost at the source: orders (gone)."))
    delivered(sender, at(15, "four", "shop: last backup 2 d 1 h ago", "Lost at the source: orders (gone)."))
    delivered(sender, at(20, "five", "Lost at the source: orders (gone), users (gone)."))
    assert sent == ["one", "three", "five"]


@pytest.mark.parametrize(
    ("bad", "good"), [(EventKind.FAILED, EventKind.SUCCEEDED), (EventKind.OUTAGE, EventKind.OUTAGE_OVER)]
)
def test_who_hears_of_failures_alone_hears_of_the_next_one(sent: list[str], bad: EventKind, good: EventKind) -> None:
    sender = messenger("json://a", when=SendWhen.FAILURE)
    for minute, kind in enumerate((bad, bad, good, bad)):
        delivered(sender, event(kind, error="OFF-1501", message=f"{kind} {minute}", at_ms=minute * 60_000))
    assert sent == [f"{bad} 0", f"{bad} 3"]


def test_each_address_gets_what_it_wants() -> None:
    def wanted(when: SendWhen, **fields: Any) -> list[str]:
        return [kind.value for kind in EventKind if when.fits(event(kind, **fields))]

    bad = ["partial", "failed", "interrupted"]
    changes = ["outage", "outage_over", "left_behind", "caught_up", "loss"]
    changes += ["not_safe", "safe_again", "source_loss", "unread", "read_again"]
    assert wanted(SendWhen.DEFAULT) == [*bad, *changes]
    assert wanted(SendWhen.FAILURE) == [*bad, "outage", "left_behind", "loss", "not_safe", "source_loss", "unread"]
    assert wanted(SendWhen.CHANGE) == changes
    assert wanted(SendWhen.DRILL) == []
    assert wanted(SendWhen.DRILL, command="restore drill") == ["succeeded", *bad]
    assert wanted(SendWhen.EVERY) == ["succeeded", *bad, *changes]


def parsed(text: str) -> Addresses:
    return parse_addresses(parse_properties(text))


def test_a_file_names_addresses_for_kinds_of_events_and_commands() -> None:
    addresses = parsed("# who\nsend = mailto://a\nsend.every = json://b\nping = https://c/1\nping.drill = http://d/2")

    assert [(sending.when, sending.scheme, sending.line) for sending in addresses.sends] == [
        (SendWhen.DEFAULT, "mailto", 2),
        (SendWhen.EVERY, "json", 3),
    ]
    assert [(pinged.commands, pinged.line) for pinged in addresses.pings] == [
        (frozenset(), 4),
        (frozenset({"restore drill"}), 5),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "send = s3cret",
        "send.never = json://s3cret",
        "post = json://s3cret",
        "send = slack://a/b/\n  s3cret/#backups",
        "ping = ftp://s3cret",
        "ping = http://",
        "ping = http://s3cret:s3cret@host/",
        "ping = http://[s3cret",
        "ping = http://a/ s3cret",
        "\n".join(["send = json://s3cret"] * 17),
    ],
)
def test_a_wrong_line_is_named_and_not_shown(text: str) -> None:
    with pytest.raises(BadOption) as refused:
        parsed(text)

    assert "s3cret" not in f"{refused.value}{refused.value.hint}"


def test_a_file_that_others_can_read_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "notify.properties"
    file.write_text("ping = http://localhost/s3cret\n")
    file.chmod(0o644)
    addresses = read_addresses(file)

    assert "exposed_secret" in caplog.text
    assert "s3cret" not in f"{caplog.text}{addresses!r}"
    with pytest.raises(BadOption, match="cannot be read"):
        read_addresses(tmp_path / "none")
