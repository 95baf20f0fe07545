"""A backup and a restore through a listener that lets nobody in but by a signature of AWS, as Amazon MSK does."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.cluster import parse_client_properties
from offsite.kafka.net.routing import ConnectionPool, Router
from offsite.model.errors import BadKafkaConfig, KafkaAuthenticationFailed
from offsite.sandbox import Sandbox, SandboxInfo, SandboxSettings
from offsite.sandbox.process import read_state
from offsite.sandbox.settings import free_ports
from tests.certificates import Certificates, make_certificates
from tests.integration.e2e.command import started
from tests.integration.e2e.site import new_name, produce_to
from tests.integration.kafka.cluster import Cluster
from tests.msk_listener import AwsKey, MskJudge, MskListener, msk_listener, utc_now
from tests.shared_brokers import running

KEY_ID, SECRET = "AKIAOFFSITE", "hunter2/secret+key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Msk:
    broker: SandboxInfo
    certificates: Certificates
    judge: MskJudge
    listener: MskListener

    def properties(self, mechanism: str = "AWS_MSK_IAM", module: str = "IAMLoginModule required;") -> str:
        return (
            f"bootstrap.servers=127.0.0.1:{self.listener.port}\nsecurity.protocol=SASL_SSL\n"
            f"sasl.mechanism={mechanism}\nsasl.jaas.config=software.amazon.msk.auth.iam.{module}\n"
            f"ssl.truststore.location={self.certificates.authority}\n"
            "sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler\n"
        )

    def ask(self, **settings: str) -> str:
        pool = ConnectionPool()
        try:
            config = parse_client_properties(self.properties(**settings), source="test").config
            return ClusterAdmin(Router(config, pool=pool)).cluster().cluster_id
        finally:
            pool.close()


@pytest.fixture(scope="module")
def msk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Msk]:
    with msk_site(tmp_path_factory.mktemp("msk")) as site:
        yield site


@contextmanager
def msk_site(
    folder: Path,
    *,
    keys: Mapping[str, AwsKey] = MappingProxyType({KEY_ID: AwsKey(secret=SECRET)}),
    session_s: float = 0,
) -> Iterator[Msk]:
    """The broker tells its clients of the listener: whoever came through it goes on through it."""
    certificates = make_certificates(folder)
    behind, before = free_ports(2)
    judge = MskJudge(keys=keys, host="127.0.0.1")
    settings = SandboxSettings(properties=_listeners(folder / "broker", behind, before))
    with (
        running(folder / "broker", settings) as (_, broker),
        msk_listener(
            judge,
            certificate=certificates.server,
            broker=("127.0.0.1", behind),
            port=before,
            session_s=session_s,
        ) as listener,
    ):
        yield Msk(broker=broker, certificates=certificates, judge=judge, listener=listener)


def _listeners(folder: Path, behind: int, before: int) -> dict[str, str]:
    """Lines for one more listener, on the ports that a first start took for the others."""
    sandbox = Sandbox(folder)
    sandbox.start(owned=True)
    state = read_state(folder)
    assert state is not None
    sandbox.stop()
    addresses = {name: f"{name}://127.0.0.1:{port}" for name, port in state.ports.items()}
    return {
        "listeners": ",".join([*addresses.values(), f"MSK://127.0.0.1:{behind}"]),
        "advertised.listeners": f"{addresses['PLAINTEXT']},MSK://127.0.0.1:{before}",
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in [*addresses, "MSK"]),
    }


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")


def test_a_signature_opens_the_broker(msk: Msk) -> None:
    assert msk.ask()
    assert msk.listener.verdicts[-1] == ""


def test_a_wrong_secret_and_a_wrong_clock_are_denied(msk: Msk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(msk.judge, "now", lambda: utc_now() + datetime.timedelta(minutes=16))
    with pytest.raises(KafkaAuthenticationFailed, match="Access denied: expired") as caught:
        msk.ask()
    assert "clock" in caught.value.hint
    monkeypatch.undo()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    began_s = time.monotonic()
    with pytest.raises(KafkaAuthenticationFailed, match="Access denied: wrong signature") as caught:
        msk.ask()
    assert time.monotonic() - began_s < 10
    assert (caught.value.id, caught.value.exit_code) == ("OFF-1701", 17)
    assert "another" not in str(caught.value) + caught.value.hint


def test_a_listener_for_iam_alone_says_so(msk: Msk) -> None:
    with pytest.raises(BadKafkaConfig, match="does not offer PLAIN, only AWS_MSK_IAM"):
        msk.ask(mechanism="PLAIN", module='PlainLoginModule required username="u" password="p";')


@pytest.mark.timeout(300)
@pytest.mark.soak
def test_a_backup_and_a_restore_pass_by_signatures(msk: Msk, tmp_path: Path) -> None:
    topic = Cluster(msk.broker.bootstrap).make_topic()
    produce_to(msk.broker.bootstrap, topic, [DemoMessage(key=b"k", value=b"v", timestamp_ms=BASE_MS)] * 100)
    (config := tmp_path / "client.properties").write_text(msk.properties())
    login = ["--kafka-config", config, "--backup", "b"]
    msk.listener.verdicts.clear()
    done = [
        started(*command, environment={"OFFSITE_REPO": str(tmp_path / "repository")})
        for command in (
            ["init"],
            ["backup", "run", *login, "--topics", topic],
            ["restore", "run", *login, "--rename", f"{topic}={new_name(topic)}", "--yes"],
        )
    ]
    assert [command_run.exit_code for command_run in done] == [0, 0, 0], [command_run.stderr for command_run in done]
    assert done[2].result["verified"] is True
    assert len(msk.listener.verdicts) >= 4, "the command and the workers of Spark log in"
    assert not any(msk.listener.verdicts)
    assert SECRET not in "".join(command_run.stdout + command_run.stderr for command_run in done)
