"""The sandbox with real brokers, asked by an independent client."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from offsite.model.clock import SystemClock
from offsite.model.errors import BadOption, SandboxFailed
from offsite.sandbox import Sandbox, SandboxInfo, SandboxSettings, Security, process, run_tool
from offsite.sandbox.jars import DUMP_LOG_SEGMENTS
from tests.conftest import SecureBroker, StartSandbox

ANSWER_LIMIT_S = 30


def create_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(ANSWER_LIMIT_S)


def produce(bootstrap: str, topic: str, value: bytes, **config: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **config})
    producer.produce(topic, value)
    assert producer.flush(ANSWER_LIMIT_S) == 0


def cluster_id(bootstrap: str) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return str(admin.describe_cluster().result(ANSWER_LIMIT_S).cluster_id)


def first_value(bootstrap: str, topic: str, **config: str) -> bytes:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"reader-of-{topic}", **config})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(ANSWER_LIMIT_S)
        assert message is not None
        assert message.error() is None
        return message.value()
    finally:
        consumer.close()


def test_a_started_sandbox_takes_and_gives_records(broker: SandboxInfo) -> None:
    create_topic(broker.bootstrap, "first")
    produce(broker.bootstrap, "first", b"hello")
    assert first_value(broker.bootstrap, "first") == b"hello"


def test_what_a_broker_unpacks_and_loads_lies_where_nobody_else_may_write(broker: SandboxInfo) -> None:
    """Kafka's codecs unpack their libraries under names that others see a moment before they are made."""
    command = Path(f"/proc/{broker.pid}/cmdline").read_bytes().decode().split("\0")
    folder = next(each.partition("=")[2] for each in command if each.startswith("-Djava.io.tmpdir="))
    assert Path(folder).is_relative_to(broker.dir)
    assert broker.dir.stat().st_mode & 0o022 == 0


def test_two_sandboxes_are_two_clusters(broker: SandboxInfo, second_broker: SandboxInfo) -> None:
    assert cluster_id(broker.bootstrap) != cluster_id(second_broker.bootstrap)


def test_starting_a_running_sandbox_finds_it(broker: SandboxInfo) -> None:
    assert Sandbox(broker.dir).start() == broker


def test_a_running_sandbox_does_not_move_to_another_port(broker: SandboxInfo) -> None:
    with pytest.raises(BadOption, match="runs on"):
        Sandbox(broker.dir).start(port=1)


def test_a_killed_broker_starts_again_on_its_port_with_its_data(start_sandbox: StartSandbox) -> None:
    sandbox, before = start_sandbox()
    create_topic(before.bootstrap, "kept")
    produce(before.bootstrap, "kept", b"still here")
    sandbox.kill()
    assert sandbox.status() is None
    after = sandbox.start()
    assert after.bootstrap == before.bootstrap
    assert after.pid != before.pid
    assert first_value(after.bootstrap, "kept") == b"still here"


def test_a_stopped_sandbox_is_gone_and_stopping_again_does_nothing(start_sandbox: StartSandbox) -> None:
    sandbox, info = start_sandbox()
    assert sandbox.status() == info
    assert sandbox.stop()
    assert process.identify(info.pid) is None
    assert sandbox.status() is None
    assert not sandbox.stop()


def test_a_port_that_someone_else_listens_on_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadOption, match=f"port {port} is in use"):
            Sandbox(tmp_path).start(port=port, owned=True)
    assert Sandbox(tmp_path).status() is None


def test_a_broker_that_does_not_start_shows_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(SandboxFailed, match=r"num\.io\.threads"):
        Sandbox(tmp_path).start(settings=SandboxSettings(properties={"num.io.threads": "none"}), owned=True)


def test_a_killed_owner_leaves_no_broker_behind(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time; from offsite.sandbox import Sandbox\n"
        "sandbox = Sandbox(pathlib.Path(sys.argv[1])); print(sandbox.start(owned=True).pid, flush=True)\n"
        "time.sleep(600)"
    )
    owner = subprocess.Popen([sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    broker = process.identify(int(owner.stdout.readline()))
    assert broker is not None
    os.kill(owner.pid, signal.SIGKILL)
    owner.communicate()
    assert process.wait_until_gone(broker, clock=SystemClock(), limit_s=ANSWER_LIMIT_S)


def test_kafkas_own_tools_run_on_its_class_path(broker: SandboxInfo) -> None:
    create_topic(broker.bootstrap, "dumped")
    produce(broker.bootstrap, "dumped", b"look at me")
    log = broker.dir / "data" / "dumped-0" / "00000000000000000000.log"
    assert "look at me" in run_tool(DUMP_LOG_SEGMENTS, ["--files", str(log), "--print-data-log"])


def test_a_failing_tool_says_why() -> None:
    with pytest.raises(SandboxFailed, match="ended with code 1"):
        run_tool(DUMP_LOG_SEGMENTS, ["--no-such-option"])


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_users_log_in(secure_broker: SecureBroker, mechanism: str, protocol: str) -> None:
    topic = f"secret-{mechanism}-{protocol}".lower()
    create_topic(secure_broker.info.bootstrap, topic)
    login = {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": secure_broker.users["alice"],
        "ssl.ca.location": str(secure_broker.certificates.authority),
    }
    produce(secure_broker.info.listeners[protocol], topic, b"hush", **login)
    assert first_value(secure_broker.info.listeners[protocol], topic, **login) == b"hush"


def test_an_unsecured_token_logs_in(secure_broker: SecureBroker) -> None:
    create_topic(secure_broker.info.bootstrap, "by-token")
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=alice",
    }
    produce(secure_broker.info.listeners["SASL_PLAINTEXT"], "by-token", b"let me in", **login)
    assert first_value(secure_broker.info.listeners["SASL_PLAINTEXT"], "by-token", **login) == b"let me in"


def test_a_client_certificate_is_a_name(secure_broker: SecureBroker) -> None:
    create_topic(secure_broker.info.bootstrap, "certified")
    login = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(secure_broker.certificates.authority),
        "ssl.certificate.location": str(secure_broker.certificates.client_certificate),
        "ssl.key.location": str(secure_broker.certificates.client_key),
    }
    produce(secure_broker.info.listeners["SSL"], "certified", b"signed", **login)
    assert first_value(secure_broker.info.listeners["SSL"], "certified", **login) == b"signed"


def test_with_an_owner_nobody_else_reads_or_writes_anything(tmp_path: Path) -> None:
    """Other users of this machine reach its ports, too. It serves the owner whole: transactions end, groups commit."""
    sandbox = Sandbox(tmp_path / "kafka")
    settings = SandboxSettings(security=Security(users={"drill": "s3cret-word"}, owner="drill"))
    try:
        listeners = sandbox.start(settings=settings, owned=True).listeners
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "drill"}
        owner = {"bootstrap.servers": listeners["SASL_PLAINTEXT"], **login, "sasl.password": "s3cret-word"}
        admin = AdminClient(owner)
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(ANSWER_LIMIT_S)
        producer = Producer({**owner, "transactional.id": "t"})
        producer.init_transactions(ANSWER_LIMIT_S)
        producer.begin_transaction()
        producer.produce("orders", b"secret")
        producer.commit_transaction(ANSWER_LIMIT_S)
        consumer = Consumer({**owner, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        message = consumer.poll(ANSWER_LIMIT_S)
        assert message is not None
        assert message.value() == b"secret"
        consumer.commit(message, asynchronous=False)
        consumer.close()
        stranger = {"bootstrap.servers": listeners["PLAINTEXT"]}
        intruder = AdminClient(stranger)  # has a name: a client that nobody refers to drops its answers
        assert intruder.list_topics(timeout=ANSWER_LIMIT_S).topics == {}
        with pytest.raises(KafkaException):
            intruder.create_topics([NewTopic("own", 1, 1)])["own"].result(ANSWER_LIMIT_S)
        refused: list[object] = []
        producer = Producer(stranger)
        producer.produce("orders", b"forged", on_delivery=lambda error, _: refused.append(error))
        producer.flush(ANSWER_LIMIT_S)
        assert refused
        assert refused[0] is not None
        with pytest.raises(KafkaException):
            AdminClient({**owner, "sasl.password": "guessed"}).list_topics(timeout=3)
        properties = tmp_path / "kafka" / "server.properties"
        assert "CONTROLLER:SASL_PLAINTEXT" in properties.read_text(encoding="utf-8")
        assert (tmp_path / "kafka").stat().st_mode & 0o077 == 0
    finally:
        sandbox.stop()
