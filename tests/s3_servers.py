"""S3 servers for tests: moto's (Python) and S3Proxy (Java), on free loopback ports, ended with the tests."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import io
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from offsite.stores.object_store import CloudStore
from offsite.stores.open_store import open_store

ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test-secret", "AWS_REGION": "us-east-1"}

_S3PROXY = "s3proxy-4.0.0-jar-with-dependencies.jar"
_S3PROXY_SHA256 = "8842c29ef4cf50c2488cff1da23df3428526c10905998384586e916cc98a2c67"
_IVY_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="offsite" module="tests"/><dependencies>
<dependency org="org.gaul" name="s3proxy" rev="4.0.0" transitive="false">
<artifact name="s3proxy" type="jar" ext="jar" m:classifier="jar-with-dependencies"/></dependency>
</dependencies></ivy-module>
"""
_START_LIMIT_S = 60


@contextmanager
def moto_server(*, before: Callable[[], None] = lambda: None) -> Iterator[str]:
    """The endpoint of moto's S3 in a thread of this process. `before` is called before each request is done."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    atomic = _AtomicPuts(server._server.app)

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        before()
        return atomic(environ, start_response)

    server._server.app = app
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


class _AtomicPuts:
    """moto looks for the key and writes it in two steps: of writers at the same moment two could win."""

    def __init__(self, app: Callable[..., Any]) -> None:
        self._app = app
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        if "HTTP_IF_NONE_MATCH" not in environ or "CONTENT_LENGTH" not in environ:
            return self._app(environ, start_response)
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"] or 0)))
        with self._lock:
            return self._app(environ, start_response)


@contextmanager
def s3proxy_server(folder: Path) -> Iterator[str]:
    """The endpoint of a new S3Proxy that keeps its objects in memory."""
    endpoint = f"http://127.0.0.1:{free_port()}"
    properties = folder / "s3proxy.conf"
    properties.write_text(
        f"s3proxy.endpoint={endpoint}\ns3proxy.authorization=none\njclouds.provider=transient-nio2\n"
        "jclouds.identity=test\njclouds.credential=test-secret\n"
    )
    command = [
        "java",
        "-Xmx512m",
        "-XX:TieredStopAtLevel=1",
        "-jar",
        str(s3proxy_jar()),
        "--properties",
        str(properties),
    ]
    with (folder / "s3proxy.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            _wait_until_up(endpoint, server, folder / "s3proxy.log")
            yield endpoint
        finally:
            server.kill()
            server.wait()


def new_s3_store(endpoint: str, *, max_retries: int = 2, retry_timeout_s: float = 5) -> CloudStore:
    """A store in a bucket of its own."""
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{bucket}", method="PUT"), timeout=30).close()
    store = open_store(f"s3://{bucket}/some/prefix?endpoint={endpoint}", environment=ENVIRONMENT)
    assert isinstance(store, CloudStore)
    return CloudStore(url=store.url, options=store.options, max_retries=max_retries, retry_timeout_s=retry_timeout_s)


def s3proxy_jar() -> Path:
    """The jar from the user's cache, fetched from Maven Central the first time; always with its known hash."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    jar = Path(caches, "offsite", "jars", _S3PROXY)
    jar.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{jar}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jar.exists():
            _fetch(jar)
    found = hashlib.sha256(jar.read_bytes()).hexdigest()
    assert found == _S3PROXY_SHA256, f"{jar} is not what it should be: delete it"
    return jar


def _fetch(jar: Path) -> None:
    with tempfile.TemporaryDirectory(dir=jar.parent, prefix=".s3proxy-") as work:
        command = _maven_command(work) if shutil.which("mvn") else _ivy_command(work)
        subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=600)
        next(Path(work).glob("s3proxy*.jar")).rename(jar)


def _maven_command(work: str) -> list[str]:
    artifact = "-Dartifact=org.gaul:s3proxy:4.0.0:jar:jar-with-dependencies"
    return ["mvn", "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={work}"]


def _ivy_command(work: str) -> list[str]:
    Path(work, "ivy.xml").write_text(_IVY_MODULE)
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    ivy = next(Path(spec.submodule_search_locations[0], "jars").glob("ivy-*.jar"))
    pattern = f"{work}/[artifact]-[revision].[ext]"
    return ["java", "-jar", str(ivy), "-cache", work, "-ivy", f"{work}/ivy.xml", "-retrieve", pattern]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_up(endpoint: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(endpoint, timeout=5).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(log.read_text())
