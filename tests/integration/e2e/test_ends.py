"""Other ends: repositories in S3, clusters with TLS and SASL, Spark on a cluster of its own."""

from __future__ import annotations

import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.demo.data import BASE_MS, DemoMessage, compare_readings, read_topic
from offsite.engine.settings import SparkChoice
from offsite.engine.spark_runner import SparkRunner
from offsite.repository.repository import Repository
from offsite.sandbox import SandboxInfo
from offsite.stores.open_store import open_store
from tests.conftest import SecureBroker
from tests.integration.e2e.command import succeed
from tests.integration.e2e.site import Site, new_name, produce_to
from tests.integration.kafka.cluster import Cluster
from tests.s3_servers import ENVIRONMENT, moto_server, s3proxy_server
from tests.shared_spark import end_shared_spark


@pytest.fixture(scope="module", params=["moto", "s3proxy"])
def s3_endpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = moto_server() if request.param == "moto" else s3proxy_server(tmp_path_factory.mktemp("s3proxy"))
    with server as endpoint:
        yield endpoint


@pytest.fixture
def topic(broker: SandboxInfo) -> str:
    name = Cluster(broker.bootstrap).make_topic(partitions=2)
    messages = (
        DemoMessage(key=b"%d" % n, value=b"%d " % n * 200, timestamp_ms=BASE_MS + n, partition=n % 2)
        for n in range(5000)
    )
    produce_to(broker.bootstrap, name, messages)
    return name


@pytest.mark.soak
def test_a_repository_in_s3_takes_verifies_and_gives_back(broker: SandboxInfo, topic: str, s3_endpoint: str) -> None:
    bucket = f"e2e-{uuid.uuid4().hex[:12]}"
    urllib.request.urlopen(urllib.request.Request(f"{s3_endpoint}/{bucket}", method="PUT"), timeout=30).close()
    repository = f"s3://{bucket}/some/prefix?endpoint={s3_endpoint}"
    assert_round_trip(repository, ["--bootstrap", broker.bootstrap], broker.bootstrap, topic, environment=ENVIRONMENT)


@pytest.mark.parametrize("mechanism", [pytest.param("PLAIN", marks=pytest.mark.soak), "SCRAM-SHA-512"])
def test_a_cluster_with_tls_and_sasl_is_backed_up_and_restored(
    secure_broker: SecureBroker, tmp_path: Path, mechanism: str
) -> None:
    bootstrap, properties = secure_broker.info.listeners["PLAINTEXT"], tmp_path / "client.properties"
    name = Cluster(bootstrap).make_topic()
    produce_to(bootstrap, name, [DemoMessage(key=b"k", value=b"v", timestamp_ms=BASE_MS)])
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    properties.write_text(
        f"bootstrap.servers={secure_broker.info.listeners['SASL_SSL']}\n"
        f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.{module} required "
        f'username="alice" password="{secure_broker.users["alice"]}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={secure_broker.certificates.authority}\n"
    )
    assert_round_trip(str(tmp_path / "repository"), ["--kafka-config", properties], bootstrap, name)
    secret = secure_broker.users["alice"].encode()
    assert not [each for each in (tmp_path / "repository").rglob("*") if each.is_file() and secret in each.read_bytes()]


@pytest.mark.soak
def test_a_spark_cluster_does_the_work(broker: SandboxInfo, topic: str, tmp_path: Path, spark_master: str) -> None:
    end_shared_spark()
    runner = SparkRunner(SparkChoice(master=spark_master))
    try:
        repository = Repository.init(open_store(str(tmp_path / "repository")))
        site = Site(Cluster(broker.bootstrap), repository, runner)
        site.back_up(topic)
        site.assert_comes_back(topic)
    finally:
        runner.close()


def assert_round_trip(
    repository: str, cluster: list[object], bootstrap: str, topic: str, *, environment: dict[str, str] | None = None
) -> None:
    where = (environment or {}) | {"OFFSITE_REPO": repository}
    succeed("init", environment=where)
    succeed("backup", "run", *cluster, "--backup", "b", "--topics", topic, environment=where)
    assert succeed("verify", "--backup", "b", "--deep", environment=where)["ok"]
    target = new_name(topic)
    restore = ["restore", "run", *cluster, "--backup", "b", "--rename", f"{topic}={target}", "--yes"]
    succeed(*restore, environment=where)
    comparison = compare_readings(topic, read_topic(bootstrap, topic), read_topic(bootstrap, target))
    assert comparison.identical, comparison.difference[:1000]
