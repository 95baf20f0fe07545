"""Backups and restores in a network namespace of their own, and where their secrets were seen.

A process: `unshare --net python -m tests.integration.e2e.secret_runs KIND FOLDER`, KIND one of `open` and
`encrypted`. It writes an `Evidence` for each run as JSON to `FOLDER/evidence.json`. The packets of a run are all
packets that there are, those of brokers and of the store included.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.kafka.protocol.metadata import NewTopic
from offsite.sandbox import SandboxInfo, SandboxSettings, Security
from tests.certificates import make_certificates
from tests.identity_provider import CLIENT, IdentityProvider, serving
from tests.integration.e2e import own_network
from tests.integration.e2e.command import Finished, started
from tests.integration.e2e.site import produce_to
from tests.integration.e2e.watch import MARK, OWN, Watch
from tests.integration.e2e.wire import Recording, captured, seen_in
from tests.integration.kafka.cluster import Cluster
from tests.kept_files import kept_files
from tests.s3_servers import moto_server
from tests.shared_brokers import running
from tests.spark_cluster import QUICK_JVMS, logged, standalone_cluster

MESSAGES = [DemoMessage(key=b"%d" % n, value=b"v" * 500, timestamp_ms=BASE_MS + n) for n in range(2000)]
USER, TOPIC = "alice", "shop"
PASSWORD, STORE_KEY, SPARK_SECRET = "the password", "the key of the store", "the secret of Spark"
CLIENT_SECRET = "the secret that fetches tokens"
DRIVER_PORT, DRIVER_BLOCKS_PORT, BLOCKS_PORT, UI_PORT = 21000, 21100, 21200, 21300  # nobody else is in here
PORT_TRIES = 16
"""As many ports from one on may Spark try, by its default."""
LOOKS_EVERY_S = 0.2
LOOKS_AGAIN_EVERY_S = 1.0
"""Once all pages were seen: to draw them takes the driver longer than its work."""


@dataclass(slots=True, kw_only=True)
class Evidence:
    """What one run left behind. `wire` and `spark_wire`: secrets in packets, and those of them in Spark's own network,
    that is, on a port of a master, a worker, a driver or an executor. `processes`: those that were looked at."""

    exit_codes: list[int] = field(default_factory=list)
    results: list[object] = field(default_factory=list)
    stderr: str = ""
    took_s: float = 0.0
    packets: int = 0
    dropped: int = 0
    missing_bytes: int = 0
    spark_bytes: int = 0
    wire: list[str] = field(default_factory=list)
    spark_wire: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    files_read: list[str] = field(default_factory=list)
    environments: list[str] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)
    pages: dict[str, int] = field(default_factory=dict)
    pages_with_secrets: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A broker, a store and a cluster. What Spark and offsite write is below `written`."""

    folder: Path
    written: Path
    secrets: Mapping[str, str]
    environment: Mapping[str, str]
    master: str
    spark: Mapping[str, str]
    cluster_ports: frozenset[int]

    def run(self, name: str, *commands: Sequence[object], secrets: str) -> Evidence:
        """The commands, one after the other until one fails."""
        evidence = Evidence()
        properties = self.folder / f"{name}-spark.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self.spark.items()))
        options = ("--spark-master", self.master, "--spark-properties", properties, "--secrets", secrets, "--verbose")
        pages = _Pages()
        watch = Watch(
            secrets=dict(self.secrets), inherited=frozenset({STORE_KEY}), folders=(), mark=self.environment[MARK]
        )
        began_s = time.monotonic()
        with ExitStack() as watches:
            kept = watches.enter_context(kept_files(self.written, self.folder / f"{name}-kept"))
            wire = watches.enter_context(captured(self.folder / f"{name}-packets"))
            watches.enter_context(watch.looking())
            watches.enter_context(pages.looking())
            for command in commands:
                done = started(*command, *options, environment=self.environment)
                self._take(evidence, done)
                if done.exit_code:
                    break
        evidence.took_s = time.monotonic() - began_s
        self._judge_wire(evidence, wire.recording())
        self._judge_pages(evidence, pages)
        evidence.environments, evidence.processes = sorted(watch.found), sorted(watch.commands)
        for path, data in kept.files():
            evidence.files_read.append(path.name)
            evidence.files += [f"{found} in {path}" for found in seen_in(data, self.secrets)]
        return evidence

    def _take(self, evidence: Evidence, done: Finished) -> None:
        evidence.exit_codes.append(done.exit_code)
        evidence.stderr += done.stderr
        evidence.printed += seen_in((done.stdout + done.stderr).encode(), self.secrets)
        with suppress(ValueError):
            evidence.results.append(done.result)

    def _judge_wire(self, evidence: Evidence, seen: Recording) -> None:
        evidence.packets, evidence.dropped, evidence.missing_bytes = seen.packets, seen.dropped, seen.missing_bytes
        for flow in seen.flows:
            found = [f"{each} in {flow}" for each in seen_in(flow.data, self.secrets)]
            evidence.wire += found
            if any(map(self._is_sparks, flow.ports)):
                evidence.spark_bytes += len(flow.data)
                evidence.spark_wire += found
        evidence.wire += [f"{each} in a strange packet" for each in seen_in(b"\0".join(seen.strange), self.secrets)]

    def _is_sparks(self, port: int) -> bool:
        fixed = (DRIVER_PORT, DRIVER_BLOCKS_PORT, BLOCKS_PORT)
        return port in self.cluster_ports or any(port in range(each, each + PORT_TRIES + 1) for each in fixed)

    def _judge_pages(self, evidence: Evidence, pages: _Pages) -> None:
        evidence.pages = {path: len(data) for path, data in pages.last.items()}
        evidence.pages_with_secrets = [
            f"{found} in {path}" for path, data in pages.all for found in seen_in(data, self.secrets)
        ]


class _Pages:
    """Spark's UI and its REST interface, read again and again while an application runs."""

    def __init__(self) -> None:
        self.last: dict[str, bytes] = {}
        self.all: list[tuple[str, bytes]] = []

    @contextmanager
    def looking(self) -> Iterator[None]:
        done = threading.Event()

        def look_on() -> None:
            looks: dict[str, Callable[[], object]] = {path: partial(self._read, path) for path in _PAGES}
            looks |= {f"/api/{what}": partial(self._look_at_interface, what) for what in _INTERFACE}
            while not done.wait(LOOKS_EVERY_S if looks.keys() - self.last.keys() else LOOKS_AGAIN_EVERY_S):
                # on a busy machine an application ends amid a round: what was not seen yet comes first
                for name in sorted(looks, key=lambda name: name in self.last):
                    with suppress(OSError, ValueError):
                        looks[name]()

        watcher = threading.Thread(target=look_on, name="pages")
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def _look_at_interface(self, what: str) -> None:
        for application in json.loads(self._read("/api/v1/applications")):
            self._read(f"/api/v1/applications/{application['id']}/{what}", f"/api/{what}")

    def _read(self, path: str, name: str = "") -> bytes:
        with urllib.request.urlopen(f"http://{own_network.OUTSIDE}:{UI_PORT}{path}", timeout=5) as answer:
            data: bytes = answer.read()
        self.all.append((name or path, data))
        if _STARTS_UP in data:
            raise ValueError(f"{path} is not there yet")
        self.last[name or path] = data
        return data


_PAGES = ("/environment/", "/jobs/", "/stages/", "/executors/")
_INTERFACE = ("environment", "jobs", "stages", "allexecutors")
"""Of Spark, what its pages and its interface show."""
_STARTS_UP = b"Spark is starting up"


@contextmanager
def stage(folder: Path, *, encrypted: bool) -> Iterator[Stage]:
    """`encrypted`: the daemons and whoever talks to them know a secret, and encrypt. Otherwise the executors have the
    store's credentials in their environment."""
    written = folder / "written"
    secrets = {name: f"{name[4]}{uuid.uuid4().hex}" for name in (PASSWORD, STORE_KEY, CLIENT_SECRET)}
    own = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": secrets[STORE_KEY],
        "AWS_REGION": "us-east-1",
        OWN: folder.name,
    }
    for each in ("events", "local", "tmp", "cluster"):
        (written / each).mkdir(parents=True)
    spark = _spark_settings(written)
    if encrypted:
        secrets[SPARK_SECRET] = f"s{uuid.uuid4().hex}"
        common = {
            "spark.authenticate": "true",
            "spark.authenticate.secret": secrets[SPARK_SECRET],
            "spark.network.crypto.enabled": "true",
        }
        spark |= common
        (folder / "conf").mkdir()
        (folder / "conf" / "spark-defaults.conf").write_text("".join(f"{k} {v}\n" for k, v in common.items()))
        os.environ["SPARK_CONF_DIR"] = str(folder / "conf")
    os.environ |= {MARK: folder.name, "TMPDIR": str(written / "tmp"), **({} if encrypted else own)}
    with ExitStack() as parts:
        endpoint = parts.enter_context(moto_server())
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/bucket", method="PUT"), timeout=30).close()
        settings = SandboxSettings(security=Security(users={USER: secrets[PASSWORD], "admin": uuid.uuid4().hex}))
        _, info = parts.enter_context(running(folder / "broker", settings))
        _make_topic(info)
        (folder / "client.properties").write_text(_client_properties(info, secrets[PASSWORD]))
        by_client = parts.enter_context(_tokens(folder, info, secrets[CLIENT_SECRET]))
        (folder / "by-client.properties").write_text(by_client)
        master = parts.enter_context(standalone_cluster(written / "cluster"))
        os.environ.pop("SPARK_CONF_DIR", None)  # commands are told by their options
        environment = {
            **own,
            MARK: folder.name,
            "OFFSITE_REPO": f"s3://bucket/prefix?endpoint={endpoint}",
            "OFFSITE_LOG_FILE": str(written / "log"),
        }
        assert started("init", environment=environment).exit_code == 0
        yield Stage(
            folder=folder,
            written=written,
            secrets=secrets,
            environment=environment,
            master=master,
            spark=spark,
            cluster_ports=frozenset({int(master.rpartition(":")[2]), _worker_port(written / "cluster")}),
        )


def _spark_settings(written: Path) -> dict[str, str]:
    """Nothing compressed, which could tear a secret that is there; ports known; addresses those of another machine."""
    return {
        "spark.driver.host": own_network.OUTSIDE,
        "spark.driver.port": str(DRIVER_PORT),
        "spark.driver.blockManager.port": str(DRIVER_BLOCKS_PORT),
        "spark.blockManager.port": str(BLOCKS_PORT),
        "spark.ui.enabled": "true",
        "spark.ui.port": str(UI_PORT),
        "spark.offsite.strangers": "allowed",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{written}/events",
        "spark.eventLog.compress": "false",
        "spark.broadcast.compress": "false",
        "spark.shuffle.compress": "false",
        "spark.local.dir": str(written / "local"),
        "spark.executor.memory": "512m",
        **{name: f"{value} -Djava.io.tmpdir={written}/tmp" for name, value in QUICK_JVMS.items()},
    }


def _make_topic(info: SandboxInfo) -> None:
    Cluster(info.bootstrap).admin.create_topics([NewTopic(name=TOPIC, partitions=2, configs={})])
    produce_to(info.bootstrap, TOPIC, MESSAGES)


def _client_properties(info: SandboxInfo, password: str) -> str:
    """SCRAM proves that it knows the password, and does not send it."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return (
        f"bootstrap.servers={info.listeners['SASL_PLAINTEXT']}\nsecurity.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={module} required username="{USER}" password="{password}";\n'
    )


@contextmanager
def _tokens(folder: Path, info: SandboxInfo, secret: str) -> Iterator[str]:
    """An identity provider, and the properties of its client. The broker takes tokens without a signature."""
    certificates = make_certificates(folder)
    provider = IdentityProvider(certificates.server, subject=USER, lifetime_s=3600, signs=False)
    provider.secrets = {CLIENT: secret}
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    with serving(provider):
        yield (
            f"bootstrap.servers={info.listeners['SASL_PLAINTEXT']}\nsecurity.protocol=SASL_PLAINTEXT\n"
            f"sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url={provider.url}\n"
            f"ssl.truststore.location={certificates.authority}\n"
            f'sasl.jaas.config={module} required clientId="{CLIENT}" clientSecret="{secret}";\n'
        )


def _worker_port(folder: Path) -> int:
    return int(logged(folder / "worker-0" / "log", r"Starting Spark worker [\d.]+:(\d+) "))


def open_runs(scene: Stage) -> dict[str, Evidence]:
    """On a cluster that encrypts nothing."""
    return {
        "refused": scene.run("refused", _backup(scene, "refused"), secrets="encrypted"),
        "on-executors": scene.run("there", _backup(scene, "there"), _restore(scene, "there"), secrets="on-executors"),
        # one short command: its read limit gives the pages of Spark, which are slow at first, four seconds to be seen
        "in-clear": scene.run("clear", (*_backup(scene, "clear"), "--read-limit", "250kB"), secrets="in-clear"),
    }


def encrypted_runs(scene: Stage) -> dict[str, Evidence]:
    return {
        "encrypted": scene.run("crypt", _backup(scene, "crypt"), _restore(scene, "crypt"), secrets="encrypted"),
    }


def _backup(scene: Stage, name: str) -> Sequence[object]:
    config = scene.folder / "client.properties"
    return ("backup", "run", "--kafka-config", config, "--backup", name, "--topics", TOPIC)


def _restore(scene: Stage, name: str) -> Sequence[object]:
    config, rename = scene.folder / "by-client.properties", f"{TOPIC}={TOPIC}-{name}"
    return ("restore", "run", "--kafka-config", config, "--backup", name, "--rename", rename, "--yes")


def main(kind: str, folder: Path) -> None:
    own_network.bring_up()
    with stage(folder, encrypted=kind == "encrypted") as scene:
        found = encrypted_runs(scene) if kind == "encrypted" else open_runs(scene)
    evidence = {name: asdict(each) for name, each in found.items()}
    (folder / "evidence.json").write_text(json.dumps(evidence))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
