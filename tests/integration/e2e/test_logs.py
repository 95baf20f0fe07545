"""`--verbose` and `--log-file` of a real run: what is in the log, and what never is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.sandbox import SandboxInfo
from tests.conftest import SecureBroker
from tests.integration.e2e.command import offsite, succeed
from tests.integration.e2e.site import produce_to
from tests.integration.kafka.cluster import Cluster

LINE = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|WARNING|ERROR) \w+( \w+=(\"(\\.|[^\"\\])*\"|[^ \"]+))*"
)
KEY, VALUE, HEADER = b"a-key-of-a-record", b"a-value-of-a-record", b"a-header-of-a-record"
MESSAGES = [DemoMessage(key=KEY, value=VALUE, headers=[("h", HEADER)], timestamp_ms=BASE_MS)]


def properties(broker: SecureBroker, folder: Path, password: str) -> Path:
    path = folder / "client.properties"
    path.write_text(
        f"bootstrap.servers={broker.info.listeners['SASL_PLAINTEXT']}\n"
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="admin" password="{password}";\n'
    )
    return path


@pytest.mark.parametrize("is_right", [True, False], ids=["right password", "wrong password"])
def test_a_run_is_told_in_the_log_without_a_secret_or_a_record(
    secure_broker: SecureBroker, tmp_path: Path, is_right: bool
) -> None:
    password = secure_broker.users["admin"] if is_right else "not-the-password"
    log, repository = tmp_path / "log", tmp_path / "repository"
    succeed("init", repository)
    topic = Cluster(secure_broker.info.bootstrap).make_topic()
    produce_to(secure_broker.info.bootstrap, topic, MESSAGES)
    config = properties(secure_broker, tmp_path, password)
    done = offsite(
        *("backup", "run", "--repo", repository, "--backup", "b", "--topics", topic, "--kafka-config", config),
        *("--verbose", "--log-file", log),
    )
    lines = log.read_text().splitlines()
    assert 'INFO began command="offsite backup run"' in lines[0]
    if is_right:
        shown = succeed("show", "b", "--repo", repository)["topics"]  # a registry's topic may have come along
        assert {each["topic"]: each["records"] for each in shown}[topic] == 1
        assert "INFO ended exit_code=0" in lines[-1]
    else:
        assert done.error["exit_code"] == done.exit_code == 17
        assert any(f"ERROR ended exit_code=17 error={done.error['id']}" in line for line in lines)
    assert all(line.startswith("    ") or LINE.fullmatch(line) for line in lines)
    shown = [line for line in done.stderr.splitlines() if LINE.fullmatch(line) or line.startswith("    ")]
    assert shown == lines
    for hidden in (password, *(part.decode() for part in (KEY, VALUE, HEADER))):
        assert hidden not in log.read_text() + done.stderr


def test_a_worker_that_fails_leaves_each_attempt_and_its_traceback_in_the_log(
    broker: SandboxInfo, tmp_path: Path
) -> None:
    log, repository = tmp_path / "log", tmp_path / "repository"
    succeed("init", repository)
    topic = Cluster(broker.bootstrap).make_topic()
    produce_to(broker.bootstrap, topic, MESSAGES)
    (repository / "backups" / "b").mkdir(parents=True)
    (repository / "backups" / "b" / "topics").write_text("a file where workers need a folder")
    done = offsite(
        *("backup", "run", "--repo", repository, "--backup", "b", "--topics", topic, "--bootstrap", broker.bootstrap),
        environment={"OFFSITE_LOG_FILE": str(log)},
    )
    text = log.read_text()
    assert done.exit_code != 0, done.stdout
    assert [line.split()[3:5] for line in text.splitlines() if " attempt_failed " in line] == [
        ["task=0", f"attempt={number}"] for number in (1, 2, 3)
    ]
    _, _, last = text.partition("ERROR task_failed task=0 attempts=4 error=OFF-")
    assert "backup/copy.py" in last
    assert "Traceback" not in done.stderr
    assert not done.stderr or json.loads(done.stderr.splitlines()[-1])["error"]
