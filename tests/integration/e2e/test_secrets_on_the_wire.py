"""What a cluster's network, its disks, its pages and its processes get to see of passwords and keys.

Brokers, store, Spark and commands run in a network namespace of their own (`secret_runs`), where every packet is looked
at. The driver's address is none of loopback: to offsite this is a cluster whose network others can read.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.e2e import own_network, secret_runs
from tests.integration.e2e.secret_runs import PASSWORD, STORE_KEY, Evidence
from tests.integration.e2e.watch import MARK
from tests.integration.e2e.wire import Wire, forms_of, seen_in
from tests.processes import processes_with

LIMIT_S = 400.0
ENVIRONMENT_BYTES = 10_000
"""Of the page of Spark that shows settings, at least."""
pytestmark = [
    pytest.mark.xdist_group("spark-cluster"),
    pytest.mark.timeout(LIMIT_S + 60),
    pytest.mark.skipif(not own_network.unshare(), reason="needs root or user namespaces, and unshare(1)"),
]


def runs(kind: str) -> Iterator[Mapping[str, Evidence]]:
    with tempfile.TemporaryDirectory(prefix="w-", dir="/tmp") as name:
        folder = Path(name)
        words = [*own_network.unshare(), sys.executable, "-m", secret_runs.__name__, kind, name]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            _, stderr = process.communicate(timeout=LIMIT_S)
        finally:
            end(process, folder.name)
        assert process.returncode == 0, stderr[-4000:]
        found = json.loads((folder / "evidence.json").read_text())
        yield {name: Evidence(**fields) for name, fields in found.items()}


def end(process: subprocess.Popen[str], mark: str) -> None:
    """Whatever happened: leave nothing running."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=30)
    for pid in processes_with(MARK, mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def in_the_open() -> Iterator[Mapping[str, Evidence]]:
    yield from runs("open")


@pytest.fixture(scope="module")
def behind_encryption() -> Iterator[Mapping[str, Evidence]]:
    yield from runs("encrypted")


def assert_all_was_seen(seen: Evidence) -> None:
    """Nothing was missed by who looked, and there was something to see."""
    assert (seen.dropped, seen.missing_bytes) == (0, 0)
    assert seen.packets > 1000
    assert seen.spark_bytes > 10_000
    assert "java" in seen.processes, seen.processes
    # its interface is slow at first, and may not come as far before a short application has ended
    assert seen.pages.get("/environment/", 0) > ENVIRONMENT_BYTES, seen.pages
    assert any(name.startswith("events_") for name in seen.files_read), seen.files_read
    assert {"spark.log", "log", "stderr"} <= set(seen.files_read), seen.files_read


def assert_nowhere_but_on_the_wire(seen: Evidence) -> None:
    assert (seen.files, seen.environments, seen.pages_with_secrets, seen.printed) == ([], [], [], [])


@pytest.mark.soak
def test_with_secrets_read_on_executors_none_is_in_any_packet_or_file(in_the_open: Mapping[str, Evidence]) -> None:
    seen = in_the_open["on-executors"]
    assert seen.exit_codes == [0, 0], seen.stderr[-4000:]
    assert [seen.results[0]["records"], seen.results[1]["verified"]] == [len(secret_runs.MESSAGES), True]  # type: ignore[index]
    assert_all_was_seen(seen)
    assert seen.wire == []
    assert_nowhere_but_on_the_wire(seen)


@pytest.mark.soak
def test_a_secret_that_is_sent_in_clear_is_found_in_sparks_own_network(in_the_open: Mapping[str, Evidence]) -> None:
    """Who looks can see."""
    seen = in_the_open["in-clear"]
    assert seen.exit_codes == [0], seen.stderr[-4000:]
    assert_all_was_seen(seen)
    for secret in (PASSWORD, STORE_KEY):
        assert any(each.startswith(f"{secret} as raw") for each in seen.spark_wire), seen.wire
    assert_nowhere_but_on_the_wire(seen)


@pytest.mark.soak
def test_without_encryption_a_run_is_refused_before_a_secret_is_sent(in_the_open: Mapping[str, Evidence]) -> None:
    seen = in_the_open["refused"]
    error = json.loads(seen.stderr.splitlines()[-1])["error"]
    assert (seen.exit_codes, error["id"]) == ([2], "OFF-0225"), seen.stderr[-4000:]
    assert "10.11.12.13" in error["message"]
    for way in ("spark.authenticate", "spark.network.crypto.enabled", "--secrets on-executors", "--secrets in-clear"):
        assert way in error["hint"]
    assert (seen.dropped, seen.missing_bytes, seen.wire) == (0, 0, [])
    assert seen.packets > 100
    assert_nowhere_but_on_the_wire(seen)


@pytest.mark.soak
def test_where_spark_encrypts_no_secret_is_in_its_network(behind_encryption: Mapping[str, Evidence]) -> None:
    """What is left are the pipes between a JVM and its Python, inside of one machine. Spark gives its own secret to
    executors, in their environment."""
    seen = behind_encryption["encrypted"]
    assert seen.exit_codes == [0, 0], seen.stderr[-4000:]
    assert_all_was_seen(seen)
    assert seen.spark_wire == []
    assert any(each.startswith(f"{PASSWORD} as raw") for each in seen.wire), "the pipes do carry it"
    assert (seen.files, seen.pages_with_secrets, seen.printed) == ([], [], [])
    handed_on = f"{secret_runs.SPARK_SECRET} in the environment of"
    assert [each for each in seen.environments if not each.startswith(handed_on)] == []


def test_a_secret_is_known_in_every_form() -> None:
    secret = "Z9-password-\N{LATIN SMALL LETTER U WITH DIAERESIS}"
    for shift in range(3):
        for rest in range(3):
            around = base64.b64encode(b"?" * shift + secret.encode() + b"!" * rest)
            assert f"it as base64+{shift}" in set(seen_in(around, {"it": secret})), (shift, rest)
    everything = b"--".join(forms_of(secret).values())
    assert list(seen_in(everything, {"it": secret})) == [f"it as {form}" for form in forms_of(secret)]
    assert list(seen_in(secret[:-1].encode(), {"it": secret})) == []


TORN = """
import socket, sys
from pathlib import Path
from tests.integration.e2e import own_network
from tests.integration.e2e.wire import captured

own_network.bring_up()
with captured(Path(sys.argv[1])), socket.create_server((own_network.OUTSIDE, 0)) as server:
    for text in (b"a torn secret", b"another one"):
        with socket.create_connection(server.getsockname()) as sending, server.accept()[0] as taking:
            sending.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in text:
                sending.send(bytes([byte]))
                assert taking.recv(1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        sending.sendto(b"a datagram", (own_network.OUTSIDE, 9))
"""


def test_what_was_torn_over_packets_is_put_together(tmp_path: Path) -> None:
    words = [*own_network.unshare(), sys.executable, "-c", TORN, str(tmp_path / "packets")]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, timeout=60)
    seen = Wire(tmp_path / "packets").recording()
    assert (seen.dropped, seen.missing_bytes) == (0, 0)
    assert {b"a datagram", b"a torn secret", b"another one"} == {flow.data for flow in seen.flows if flow.data}
