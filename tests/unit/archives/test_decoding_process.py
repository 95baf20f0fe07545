"""Foreign files in other processes: what one may take and must not know, how its end is told, and who shares one."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import pytest

from offsite.archives import decoding_process
from offsite.archives.decoding_process import DecodingEnded, decode_apart
from offsite.model.errors import SparkFailed

MADE = "tests.unit.archives.made_decodings"
MIB = 1 << 20


def decoded(name: str, *args: object) -> Iterator[Any]:
    return decode_apart(f"{MADE}:{name}", lambda request: [request], *args)


def test_requests_are_answered_and_items_come_in_order() -> None:
    assert list(decoded("echo", 3)) == [[0], [1], [2]]


def test_secrets_of_the_environment_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setattr(decoding_process, "_servers", [])
    (environment,) = decoded("tell_environment")
    assert "AWS_SECRET_ACCESS_KEY" not in environment
    assert environment["PYTHONPATH"]


def test_small_files_share_a_process_and_a_large_one_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding_process, "_servers", [])
    first, second, third = (list(decoded("keep", size_bytes)) for size_bytes in (1, 1, 100 * MIB))
    fourth = list(decoded("keep", 1))
    assert (first, second, third, fourth) == ([1], [2], [100 * MIB + 2], [1])


def test_every_file_of_a_process_may_take_as_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding_process, "MAX_MEMORY_BYTES", 50 * MIB)
    assert [list(decoded("take", 40 * MIB)) for _ in range(3)] == [[40 * MIB]] * 3


@pytest.mark.slow
def test_every_file_of_a_process_may_take_as_much_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding_process, "MAX_BASE_S", 1)
    assert len({pid for _ in range(4) for pid in decoded("toil_for", 0.7)}) == 1


def test_a_reader_that_stops_while_the_process_waits_leaves_it_to_the_next() -> None:
    for _ in range(3):
        items = decoded("tell_process_when_asked")
        pid = next(items)
        items.close()  # type: ignore[attr-defined]
        assert list(decoded("tell_process_once")) == [pid]


def test_the_end_of_a_shared_process_says_so_and_of_one_alone_does_not() -> None:
    for alone in (False, True):
        list(decoded("tell_process_once"))
        items = decode_apart(f"{MADE}:end_by", lambda _: None, signal.SIGSEGV, alone=alone)
        with pytest.raises(DecodingEnded) as ended:
            list(items)
        assert ended.value.was_shared is not alone


def test_a_waiting_process_that_somebody_ended_is_not_asked() -> None:
    (pid,) = decoded("tell_process_once")
    waiting = decoding_process._servers[-1]._kept[MADE].channel
    os.kill(pid, signal.SIGKILL)
    while waiting.is_open():
        sleep(0.01)
    (other,) = decoded("tell_process_once")
    assert other != pid


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


def test_a_reader_that_ends_amid_a_request_of_its_thread_does_not_wait_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoding_process, "_servers", [])
    items = decoded("tell_process")
    pid = next(items)
    (server,) = decoding_process._servers
    with server._lock:  # as while the garbage collector runs amid a request
        ending = Thread(target=server.kill, args=[pid], daemon=True)
        ending.start()
        ending.join(10)
        assert not ending.is_alive()
    assert list(decoded("echo", 1)) == [[0]]  # the next request reaps the process
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.slow
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
    server, module = decoding_process._Server(), MADE
    channel = server.fork(module).channel
    channel.send((module, "hang", (), {}, 50 * MIB, 5))
    assert channel.receive() == ("item", "begun")
    server.close()  # as the end of the parent does
    with pytest.raises(EOFError):
        channel.receive()
