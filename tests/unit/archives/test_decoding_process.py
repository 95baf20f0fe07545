"""A process for each foreign file: what it may take, how its end is told, and what it must not know."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from offsite.archives import decoding_process
from offsite.archives.decoding_process import DecodingEnded, decode_apart
from offsite.model.errors import SparkFailed

MIB = 1 << 20


def decoded(name: str, *args: object) -> Iterator[Any]:
    return decode_apart(f"tests.unit.archives.made_decodings:{name}", lambda request: [request], *args)


def test_requests_are_answered_and_items_come_in_order() -> None:
    assert list(decoded("echo", 3)) == [[0], [1], [2]]


def test_secrets_of_the_environment_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setattr(decoding_process, "_servers", [])
    (environment,) = decoded("tell_environment")
    assert "AWS_SECRET_ACCESS_KEY" not in environment
    assert environment["PYTHONPATH"]


def test_every_file_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding_process, "MAX_MEMORY_BYTES", 150 * MIB)
    assert [next(decoded("keep", 100 * MIB)) for _ in range(3)] == [100 * MIB] * 3


def test_too_much_memory_ends_a_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding_process, "MAX_MEMORY_BYTES", 50 * MIB)
    with pytest.raises(DecodingEnded, match="more than 50 MiB of memory"):
        list(decoded("keep", 100 * MIB))


@pytest.mark.slow
def test_too_much_processor_time_ends_a_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding_process, "MAX_BASE_S", 1)
    with pytest.raises(DecodingEnded, match="too much time"):
        list(decoded("toil"))


@pytest.mark.slow
def test_a_decoding_that_waits_for_nothing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding_process, "_PATIENCE_S", 1)
    with pytest.raises(DecodingEnded, match="does not go on"):
        list(decoded("hang"))


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_crash_is_named_by_its_signal(number: signal.Signals) -> None:
    with pytest.raises(DecodingEnded, match=number.name):
        list(decoded("end_by", number))


def test_a_process_that_the_machine_killed_says_nothing_about_the_file() -> None:
    with pytest.raises(SparkFailed, match="was killed"):
        list(decoded("end_by", signal.SIGKILL))


@pytest.mark.slow
def test_a_server_that_somebody_ended_is_replaced() -> None:
    (first,) = decoded("echo", 1)
    server = decoding_process._servers[-1]._process
    server.kill()
    server.wait()
    assert list(decoded("echo", 1)) == [first]


def test_a_reader_that_stops_early_leaves_no_process() -> None:
    items = decoded("tell_process")
    pid = next(items)
    os.kill(pid, 0)
    items.close()  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_an_interrupted_request_is_not_answered_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer, an exit code, would be taken for the number of a process, and that process or group be ended."""
    items = decoded("tell_process")
    next(items)
    server = decoding_process._servers[-1]

    class Interrupt(BaseException):
        pass

    class Interrupted:
        fileno, sendmsg, close = server._control.fileno, server._control.sendmsg, server._control.close

        def recv(self, _: int) -> bytes:
            raise Interrupt

    monkeypatch.setattr(server, "_control", Interrupted())
    with pytest.raises(Interrupt):
        items.close()  # type: ignore[attr-defined]
    assert next(decoded("tell_process")) > 1
    assert decoding_process._servers[-1] is not server
    server._process.wait(timeout=10)


def test_more_decodings_than_open_files_are_allowed_at_once() -> None:
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    next(decoded("echo", 1))
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 10, most))
    try:
        at_once = [decoded("echo", 2) for _ in range(20)]
        assert [next(items) for items in at_once] == [[0]] * 20
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (least, most))


def test_a_machine_without_further_processes_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "without_processes.py").write_text(
        "import os\ndef fork():\n    raise BlockingIOError(11, 'Resource temporarily unavailable')\nos.fork = fork\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    servers: list[decoding_process._Server] = []
    monkeypatch.setattr(decoding_process, "_servers", servers)
    with pytest.raises(SparkFailed, match="no process can be started") as error:
        next(decode_apart("without_processes:any", lambda _: None))
    assert "pids.max" in error.value.hint
    servers[0].close()


def test_a_decoding_that_hangs_ends_with_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding_process, "_PATIENCE_S", 2)
    server, module = decoding_process._Server(), "tests.unit.archives.made_decodings"
    channel, _ = server.fork(module)
    channel.send((module, "hang", (), {}, 50 * MIB, 5))
    assert channel.receive() == ("item", "begun")
    server.close()  # as the end of the parent does
    with pytest.raises(EOFError):
        channel.receive()
