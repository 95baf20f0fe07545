"""What one caller may take of a coordinator that others use as well, and what it remembers of him."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from offsite.serve.browsers import Hosts
from offsite.serve.gate import REFUSALS_LOGGED_MAX, REQUESTS_AT_ONCE, Gate, GateRules
from offsite.serve.sessions import IDLE_S, Sessions
from offsite.serve.tokens import TokenFile
from tests.unit.serve.conftest import Connect
from tests.virtual_time import Script


def guarded(tokens: TokenFile, clock: Script | None = None) -> GateRules:
    return GateRules(hosts=Hosts.of(()), sessions=Sessions(), tokens=tokens, read_only=False, clock=clock or Script())


async def asked(gate: Gate, path: str, token: str, **headers: str) -> Any:
    """The status and the body of an answer."""
    parts: list[Message] = []
    body: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        return body.pop() if body else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        parts.append(message)

    told = {"host": "localhost", "authorization": f"Bearer {token}", **headers}
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in told.items()]
    await gate({"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": pairs}, receive, send)
    return parts[0]["status"], b"".join(part.get("body", b"") for part in parts[1:])


def test_one_caller_leaves_room_for_others(tokens: TokenFile, secrets: dict[str, str]) -> None:
    """Each answer takes one of the threads, of which a server has forty, and memory until it is sent."""

    async def run() -> tuple[list[int], int, int]:
        may_end, are_in, under_way = asyncio.Event(), asyncio.Event(), []

        async def slow(scope: Scope, receive: Receive, send: Send) -> None:
            under_way.append(scope["state"]["caller"].name)
            if len(under_way) == REQUESTS_AT_ONCE:
                are_in.set()
            await may_end.wait()
            await Response("ok")(scope, receive, send)

        gate = Gate(slow, guarded(tokens))
        first = [asyncio.ensure_future(asked(gate, "/jobs", secrets["read"])) for _ in range(REQUESTS_AT_ONCE)]
        await are_in.wait()
        too_many, _ = await asked(gate, "/jobs", secrets["read"])
        other = asyncio.ensure_future(asked(gate, "/jobs", secrets["operate"]))
        may_end.set()
        statuses = [status for status, _ in await asyncio.gather(*first)]
        return statuses, too_many, (await other)[0] + (await asked(gate, "/jobs", secrets["read"]))[0]

    assert asyncio.run(run()) == ([200] * REQUESTS_AT_ONCE, 429, 400)


def test_a_large_answer_is_under_way_until_it_is_taken(tokens: TokenFile, secrets: dict[str, str]) -> None:
    large = bytes(range(256)) * 8_000

    async def run() -> Any:
        return await asked(Gate(Response(large), guarded(tokens)), "/jobs", secrets["read"])

    assert asyncio.run(run()) == (200, large)


def test_no_log_is_filled_by_who_is_refused(
    connect: Connect, tokens: TokenFile, secrets: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """It is turned over when it is full: whoever may fill it makes it forget which records he looked at."""
    caplog.set_level("INFO")
    clock = Script(lambda: None)
    client = connect(tokens=tokens, clock=clock)
    watching = {"Authorization": f"Bearer {secrets['watch']}"}
    for _ in range(REFUSALS_LOGGED_MAX + 5):
        assert client.get("/jobs").status_code == 401
        assert client.post("/api/v1/nothing", headers=watching).status_code == 403
    lines = [line for line in caplog.messages if line.startswith("asked")]
    assert len(lines) == 2 * REFUSALS_LOGGED_MAX
    assert [("further refusals" in line) for line in lines].count(True) == 2
    clock.sleep(60)
    client.get("/jobs")
    assert len([line for line in caplog.messages if line.startswith("asked")]) == len(lines) + 1


def test_a_body_whose_length_is_told_twice_is_refused(tokens: TokenFile, secrets: dict[str, str]) -> None:
    """A proxy may go by the other one, and take what follows for the request of somebody else."""
    gate = Gate(Response("ok"), guarded(tokens))
    told = asked(gate, "/jobs", secrets["read"], transfer_encoding="chunked", content_length="5")
    assert asyncio.run(told)[0] == 400


def test_the_line_about_a_request_has_what_stands_behind_a_long_name(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    connect().delete(f"/api/v1/backups/{'b' * 255}/checkpoints/{2**53 - 1}?confirmation=x")
    assert f"/checkpoints/{2**53 - 1}" in caplog.text


def test_no_number_of_logouts_fills_the_memory_and_none_is_forgotten() -> None:
    sessions = Sessions(b"k" * 32)
    other = sessions.begin("bob", now_s=0)
    cookies = [sessions.begin("ann", now_s=number) for number in range(1_000)]
    for cookie in cookies:
        sessions.end(cookie, now_s=1_000)
    assert sum(len(of_name) for of_name in sessions._ended._ended.values()) < 200
    assert [cookie for cookie in cookies if sessions.read(cookie, now_s=1_000)] == []
    assert sessions.read(other, now_s=1_000) is not None
    assert sessions.read(sessions.begin("ann", now_s=1_001), now_s=1_000 + IDLE_S) is not None


@pytest.mark.parametrize(("path", "status"), [("/api/v1/backups/b/runs", 401), ("/login", 413)])
def test_no_large_body_of_a_stranger_is_kept(tokens: TokenFile, path: str, status: int) -> None:
    """Two hundred of them were, until each had come, or ten seconds had passed."""

    async def run() -> int:
        gate, read = Gate(Response("ok"), guarded(tokens)), 0
        statuses: list[int] = []

        async def receive() -> Message:
            nonlocal read
            read += 8_192
            return {"type": "http.request", "body": b"x" * 8_192, "more_body": True}

        async def send(message: Message) -> None:
            statuses.extend([message["status"]] if "status" in message else [])

        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "headers": [(b"host", b"localhost")],
        }
        await gate(scope, receive, send)
        assert read < 32_768
        return statuses[0]

    assert asyncio.run(run()) == status
