"""One conversation with a management API that has two partitions and a store, each answer held against `facts`.

It is had with the fake by the unit tests, and with a real broker by the soak: what the fake says there, Zeebe says.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from typing import Any

from tests.fake_zeebe import facts

PATIENCE_S = 60.0
ATTEMPTS = 8


class Talker:
    """Speaks to `host:port`, by nothing of offsite."""

    def __init__(self, host: str, port: int, route: str) -> None:
        self._host, self._port, self.route = host, port, route

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=30)
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, f"/actuator/{path}", data, {"Content-Type": "application/json"} if data else {})
            answer = connection.getresponse()
            said = answer.read()
            return answer.status, json.loads(said) if said else None
        finally:
            connection.close()

    def take(self, backup: object) -> tuple[int, Any]:
        code, body = self.ask("POST", self.route, {"backupId": backup})
        assert code in facts.TAKE_CODES
        (facts.check_taken if code == 202 else facts.check_error)(body)
        return code, body

    def status(self, backup: int) -> tuple[int, Any]:
        code, body = self.ask("GET", f"{self.route}/{backup}")
        assert code in facts.STATUS_CODES
        (facts.check_backup if code == 200 else facts.check_error)(body)
        return code, body

    def ids(self) -> list[int]:
        code, body = self.ask("GET", self.route)
        assert code in facts.LIST_CODES
        facts.check_list(body)
        return [each["backupId"] for each in body]

    def delete(self, backup: int) -> int:
        code, _ = self.ask("DELETE", f"{self.route}/{backup}")
        assert code in facts.DELETE_CODES
        return code

    def exporting(self, what: str) -> bool:
        code, body = self.ask("POST", f"exporting/{what}")
        assert code in facts.EXPORTING_CODES
        facts.check_exporting(code, body)
        return code == 204 or (code == 200 and body["status"] == 204)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline_s, what
            time.sleep(0.05)


def settled(zeebe: Talker, backup: int) -> str:
    """The state that a backup ends in; for a moment after it was begun it is unknown."""
    zeebe.until(lambda: zeebe.status(backup)[0] == 200, "it to be known")
    zeebe.until(lambda: zeebe.status(backup)[1]["state"] in {"COMPLETED", "FAILED"}, "it to be settled")
    return str(zeebe.status(backup)[1]["state"])


def complete(zeebe: Talker, first: int) -> int:
    """The first id from `first` on that becomes complete: a broker whose segment grows while it is uploaded fails."""
    for backup in range(first, first + ATTEMPTS):
        zeebe.until(lambda: zeebe.take(backup)[0] in {202, 409}, "it to be taken")  # noqa: B023  # waited for here
        if settled(zeebe, backup) == "COMPLETED":
            return backup
    raise AssertionError("no backup became complete")


def converse(zeebe: Talker, first: int) -> None:
    """Ids from `first` on are used; no backup above it is there."""
    first = complete(zeebe, first)
    assert zeebe.take(first)[0] == 409, "the same id"
    assert zeebe.take(first - 1)[0] == 409, "a lower id"
    assert zeebe.take(0)[0] == 400
    assert zeebe.take(str(first + 1))[0] == 202, "ids may be texts"
    settled(zeebe, first + 1)
    assert set(zeebe.ids()) >= {first, first + 1}
    assert zeebe.delete(first + 1) == 204
    assert zeebe.delete(first + 1) == 204, "one that is not there"
    zeebe.until(lambda: zeebe.status(first + 1)[0] == 404, "it to be gone")
    assert zeebe.take(first + 1)[0] == 409, "an id that was deleted"
    assert zeebe.exporting("pause?soft=true")
    assert zeebe.exporting("pause?soft=true"), "twice"
    assert zeebe.exporting("resume")
    assert zeebe.exporting("resume"), "twice"
    assert not zeebe.exporting("strange")


def refuse(zeebe: Talker) -> None:
    """What the server below answers by itself."""
    for method, path, code in (
        ("GET", "nowhere", 404),
        ("GET", f"{zeebe.route}/abc", 400),
        ("POST", f"{zeebe.route}/7", 405),
        ("GET", "exporting/pause", 405),
    ):
        found, body = zeebe.ask(method, path)
        assert found == code, (method, path, found)
        facts.check_problem(body)
    code, body = zeebe.ask("POST", zeebe.route, {})
    assert code == 400
    facts.check_problem(body)
