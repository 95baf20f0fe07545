"""Real schema registries for tests, on free loopback ports, ended with the test.

Apicurio comes from Maven Central. Karapace is on no index of packages: a test has it where `OFFSITE_TEST_KARAPACE`
names a folder with its source (`karapace/`) and a Python that can run it (`venv/bin/python`).
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from offsite.sandbox.java import LONG_RUN, find_java
from offsite.sandbox.settings import free_ports
from tests.fetched_tools import NoTool, maven_archive

APICURIO_VERSION = "3.0.9"
"""The newest that runs on Java 17; 3.3 needs 21."""
_APICURIO_SHA256 = "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"
_START_LIMIT_S = 180.0
_END_LIMIT_S = 20.0


@contextmanager
def apicurio(folder: Path) -> Iterator[str]:
    """An empty one in memory; yields the address of its API like Confluent's. Raises `NoTool`."""
    home = maven_archive(f"io.apicurio:apicurio-registry-app:{APICURIO_VERSION}", sha256=_APICURIO_SHA256)
    (port,) = free_ports(1)
    flags = [*LONG_RUN, "-XX:TieredStopAtLevel=1", "-Xmx384m", "-Dquarkus.http.host=127.0.0.1"]
    (jar,) = home.glob("*-runner.jar")
    command = [str(find_java().launcher), *flags, f"-Dquarkus.http.port={port}", "-jar", str(jar)]
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    with _running(command, folder, url, {}):
        yield url


@contextmanager
def karapace(folder: Path, bootstrap: str) -> Iterator[str]:
    """An empty one, which keeps its schemas in a topic of the cluster. Raises `NoTool`."""
    home = os.environ.get("OFFSITE_TEST_KARAPACE")
    if not home:
        raise NoTool("OFFSITE_TEST_KARAPACE names no source of Karapace")
    (port,) = free_ports(1)
    settings = {"bootstrap_uri": bootstrap, "host": "127.0.0.1", "port": port, "advertised_hostname": "127.0.0.1"}
    settings |= {"karapace_registry": True, "log_level": "WARNING"}
    settings |= {"topic_name": f"_schemas-{port}", "group_id": f"registry-{port}", "client_id": f"registry-{port}"}
    (file := folder / "karapace.json").write_text(json.dumps(settings), "utf-8")
    url = f"http://127.0.0.1:{port}"
    command = [f"{home}/venv/bin/python", "-m", "karapace.karapace_all", str(file)]
    with _running(command, folder, url, {"PYTHONPATH": home}):
        yield url


@contextmanager
def _running(command: Sequence[str], folder: Path, url: str, environment: Mapping[str, str]) -> Iterator[None]:
    log = folder / "registry.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **environment}
        )
    try:
        _await(process, url, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end_s = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < end_s and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/subjects", timeout=5):
                return
        except (OSError, urllib.error.URLError):
            time.sleep(0.2)
    raise AssertionError(f"the registry did not start: {log.read_text('utf-8', 'replace')[-2000:]}")
