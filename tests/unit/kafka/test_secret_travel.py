"""Passwords are pickled only where they may travel, or not at all: their file is read where the task runs."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path

import pytest

from offsite.kafka.cluster import read_client_properties
from offsite.kafka.config import KafkaConfig, SaslConfig, TokenSource, parse_bootstrap
from offsite.model.errors import BadKafkaConfig, SecretStays
from offsite.model.secret import Secret, SecretHandling, handle_secrets

FILE = """
bootstrap.servers=here:1
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="hunter2";
client.rack=a
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "client.properties"
    path.write_text(FILE)
    return path


def test_a_secret_is_pickled_nowhere_unless_it_is_said_that_it_may(file: Path) -> None:
    config = read_client_properties(file).config
    with pytest.raises(SecretStays):
        pickle.dumps(config)
    with handle_secrets(SecretHandling.SENT):
        data = pickle.dumps(config)
    assert b"hunter2" in data
    assert pickle.loads(data) == config
    with pytest.raises(SecretStays):
        pickle.dumps(config)


def test_what_one_thread_may_send_another_may_not() -> None:
    seen: list[bool] = []

    def send() -> None:
        try:
            pickle.dumps(Secret("hunter2"))
        except SecretStays:
            seen.append(True)

    with handle_secrets(SecretHandling.SENT):
        other = threading.Thread(target=send)
        other.start()
        other.join()
    assert seen == [True]


def test_a_file_that_is_read_on_executors_brings_no_secret_and_keeps_the_brokers(file: Path) -> None:
    config = read_client_properties(file).config
    with handle_secrets(SecretHandling.READ_THERE):
        data = pickle.dumps(config)
    assert b"hunter2" not in data
    file.write_text(FILE.replace("here:1", "elsewhere:1").replace("hunter2", "hunter3").replace("rack=a", "rack=b"))
    there = pickle.loads(data)
    assert there.bootstrap == config.bootstrap
    assert there.rack_id == "b"
    assert there.sasl is not None
    assert there.sasl.password.reveal() == "hunter3"


def test_an_executor_without_the_file_is_named(file: Path) -> None:
    with handle_secrets(SecretHandling.READ_THERE):
        data = pickle.dumps(read_client_properties(file).config)
    file.unlink()
    with pytest.raises(BadKafkaConfig, match=r"on the executor .*: cannot read"):
        pickle.loads(data)


@pytest.mark.parametrize(
    ("theirs", "told"),
    [
        ("bootstrap.servers=here:1", "security.protocol is PLAINTEXT here, and SASL_SSL where the command runs"),
        (FILE.replace("SASL_SSL", "SASL_PLAINTEXT"), "security.protocol is SASL_PLAINTEXT here, and SASL_SSL where"),
        ("security.protocol=SSL", "security.protocol is SSL here, and SASL_SSL where the command runs"),
        (FILE.replace("256", "512"), "sasl.mechanism is SCRAM-SHA-512 here, and SCRAM-SHA-256 where the command runs"),
    ],
)
def test_an_executor_s_file_switches_off_neither_encryption_nor_login(file: Path, theirs: str, told: str) -> None:
    with handle_secrets(SecretHandling.READ_THERE):
        data = pickle.dumps(read_client_properties(file).config)
    file.write_text(theirs)
    with pytest.raises(BadKafkaConfig, match=f"on the executor .*: {told}") as raised:
        pickle.loads(data)
    assert "hunter2" not in str(raised.value)


def test_a_secret_that_came_from_no_file_cannot_be_read_on_executors() -> None:
    sasl = SaslConfig(mechanism="PLAIN", username="u", password=Secret("hunter2"))
    with handle_secrets(SecretHandling.READ_THERE), pytest.raises(SecretStays, match="is not in a file"):
        pickle.dumps(KafkaConfig(bootstrap=parse_bootstrap("here:1"), sasl=sasl))


def test_settings_without_a_secret_may_always_be_pickled() -> None:
    config = KafkaConfig(bootstrap=parse_bootstrap("here:1"), rack_id="a")
    assert pickle.loads(pickle.dumps(config)) == config


def test_arguments_of_a_token_command_are_secrets_and_its_name_is_none() -> None:
    told = TokenSource(command=("curl", "-d", "client_secret=hunter2"))
    with pytest.raises(SecretStays):
        pickle.dumps(told)
    with handle_secrets(SecretHandling.SENT):
        assert pickle.loads(pickle.dumps(told)) == told
    assert "hunter2" not in repr(told)
    for harmless in (TokenSource(command=("/opt/token",)), TokenSource(file="/run/token")):
        sasl = SaslConfig(mechanism="OAUTHBEARER", token=harmless)  # with an empty password, which is none
        assert pickle.loads(pickle.dumps(sasl)) == sasl
