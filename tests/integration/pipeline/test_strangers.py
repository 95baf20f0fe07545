"""Spark's doors in local mode: whoever connects without the secret, which nobody is told, is not listened to."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.engine.local.jvm import java_binary
from offsite.engine.settings import SparkChoice
from offsite.engine.spark_runner import SparkRunner
from tests.processes import listening_ports, processes_with
from tests.shared_spark import end_shared_spark

ROOT = Path(__file__).parents[3]
MARK = "OFFSITE_TEST_MARK"
RPC_REQUEST, RPC_RESPONSE = 3, 4
WORD = "a-strangers-object"
PATIENCE_S = 20.0
JAVA = str(java_binary())


@pytest.fixture(scope="module")
def runner() -> Iterator[SparkRunner]:
    end_shared_spark()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv(MARK, f"strangers-{os.getpid()}")
        spark = SparkRunner(SparkChoice(master="local[2,4]"))
        try:
            spark.begin()
            spark._session.ready()  # type: ignore[union-attr]
            yield spark
        finally:
            spark.close()


def test_an_object_of_a_stranger_is_not_read_by_the_driver(runner: SparkRunner) -> None:
    """Without authentication the answer is an exception that quotes the object: it was deserialised."""
    context, _ = runner._session.ready()  # type: ignore[union-attr]
    answer = asked(int(context.getConf().get("spark.driver.port") or 0), driver_message(WORD))
    assert answer[:1] != bytes([RPC_RESPONSE])
    assert WORD.encode() not in answer
    assert b"sasl" in answer.lower()


def test_blocks_are_not_served_to_strangers(runner: SparkRunner) -> None:
    """Asked for none, a block manager that listens to anybody answers with the number of a stream."""
    context, _ = runner._session.ready()  # type: ignore[union-attr]
    java = [pid for pid, command in processes_with(MARK, os.environ[MARK]).items() if command.startswith(JAVA)]
    ports = {port for pid in java for port in listening_ports(pid)}
    others = {context._gateway.gateway_parameters.port, int(context.getConf().get("spark.driver.port") or 0)}  # type: ignore[union-attr]
    (port,) = ports - others
    answer = asked(port, b"\0" + text("app") + text("driver") + struct.pack(">i", 0))  # OpenBlocks
    assert answer[:1] != bytes([RPC_RESPONSE])
    assert b"sasl" in answer.lower()


def test_the_secret_is_a_fresh_one_and_is_told_to_nobody(runner: SparkRunner) -> None:
    context, _ = runner._session.ready()  # type: ignore[union-attr]
    hadoop = context._jvm.org.apache.hadoop  # type: ignore[union-attr]
    kept = hadoop.security.UserGroupInformation.getCurrentUser().getCredentials()
    secret = bytes(kept.getSecretKey(hadoop.io.Text("sparkCookie"))).decode()
    assert len(secret) * 4 >= 256
    for pid in processes_with(MARK, os.environ[MARK]):
        assert secret.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert secret.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    assert "spark.authenticate.secret" not in dict(context.getConf().getAll())
    folder = Path(context.getConf().get("spark.local.dir") or "")
    assert not [each for each in folder.rglob("*") if each.is_file() and secret.encode() in each.read_bytes()]


def driver_message(word: str) -> bytes:
    """To an endpoint that every driver has, with a string as Java serialises it."""
    nobody, receiver = b"\0", b"\1" + text16("127.0.0.1") + struct.pack(">i", 1)
    return nobody + receiver + text16("endpoint-verifier") + b"\xac\xed\x00\x05t" + text16(word)


def asked(port: int, body: bytes) -> bytes:
    """What Spark says to one request (Spark's TransportContext): the type of the frame, and what follows."""
    frame = struct.pack(">bqi", RPC_REQUEST, 1, len(body)) + body
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as stranger:
        stranger.sendall(struct.pack(">q", 8 + len(frame)) + frame)
        head = exactly(stranger, 8)
        return exactly(stranger, struct.unpack(">q", head)[0] - 8) if head else b""


def exactly(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := stream.recv(size - len(data))):
        data += more
    return data


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


def text16(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()
