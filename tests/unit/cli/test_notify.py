"""`offsite notify test`: what came of a test message, for each address."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.model.errors import BadOption
from offsite.notify import messenger


@pytest.fixture
def pinged() -> Iterator[tuple[str, list[dict[str, object]]]]:
    """The URL of a server that takes pings, and what it got. Below /no it answers 500."""
    bodies: list[dict[str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append({"path": self.path, **json.loads(self.rfile.read(int(self.headers["Content-Length"])))})
            self.send_response(500 if self.path.startswith("/no") else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", bodies
        server.shutdown()


def test_each_address_gets_a_test_whatever_it_is_for_and_its_outcome_is_told(
    pinged: tuple[str, list[dict[str, object]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, bodies = pinged
    titles: list[str] = []

    def send(addresses: list[object], title: str, *_: object) -> list[str]:
        titles.append(title)
        return ["", "it was not accepted, or nobody answers"]

    monkeypatch.setattr(messenger, "_sent", send)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (file := tmp_path / "notify").write_text(
        f"ping.drill = {url}/yes\nsend.drill = json://s3cret@a\nsend.failure = json://b\n"
    )
    file.chmod(0o600)
    result = CliRunner().invoke(app, ["notify", "test", str(file)])
    assert result.exit_code == 3, result.output
    assert titles == ["offsite: notify test: succeeded"]
    assert [(body["path"], body["event"], body["command"]) for body in bodies] == [("/yes", "succeeded", "notify test")]
    lines = [line.rpartition(" (")[0] for line in result.stdout.splitlines()]
    assert lines == [
        "ping of line 1: sent",
        "message of line 2 (json): sent",
        "message of line 3 (json): NOT sent: it was not accepted, or nobody answers",
    ]
    assert "s3cret" not in result.output


def test_all_that_arrived_ends_with_0_and_is_json_too(
    pinged: tuple[str, list[dict[str, object]]], tmp_path: Path
) -> None:
    (file := tmp_path / "notify").write_text(f"ping = {pinged[0]}/yes\n")
    file.chmod(0o600)
    result = CliRunner().invoke(app, ["notify", "test", str(file), "-o", "json"])
    assert result.exit_code == 0, result.output
    (delivery,) = json.loads(result.stdout)["deliveries"]
    assert (delivery["to"], delivery["event"], delivery["problem"]) == ("ping of line 1", "succeeded", "")


def test_a_file_without_an_address_is_refused(tmp_path: Path) -> None:
    (file := tmp_path / "notify").write_text("# nobody yet\n")
    error = CliRunner().invoke(app, ["notify", "test", str(file)]).exception
    assert isinstance(error, BadOption)
    assert "names no address" in error.message
