"""A real API server of Kubernetes for custom resources, with its etcd, on free loopback ports, ended with the test.

It serves definitions and what they define, and nothing else: no core group, no namespaces, and 404 on `/api` and
`/apis`. Who needs those (a client that asks what there is, events, Deployments) puts a proxy in front of it.
"""

from __future__ import annotations

import ssl
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml

from offsite.sandbox.ports import free_ports
from tests.certificates import Certificates, make_certificates
from tests.fetched_tools import debian_tool, go_tool

VERSION = "v0.35.0"
"""Of apiextensions-apiserver, which is that of Kubernetes 1.35."""
DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMIN_GROUP = "system:masters"
_MODULE = "k8s.io/apiextensions-apiserver"
_NEEDING_A_CORE = (
    "NamespaceLifecycle,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,"
    "ValidatingAdmissionPolicy,MutatingAdmissionPolicy"
)
_START_LIMIT_S = 120.0
_END_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    etcd: Path
    api_server: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServer:
    """`client` is an administrator and begins each path with `url`. For other clients: `certificates`, `kubeconfig`."""

    url: str
    client: httpx.Client
    certificates: Certificates
    kubeconfig: Path


def fetched_programs() -> Programs:
    """Raises `NoTool`. The first time takes minutes: the server is compiled."""
    return Programs(
        etcd=debian_tool("etcd", package="etcd-server"),
        api_server=go_tool("apiextensions-apiserver", module=_MODULE, version=VERSION),
    )


@contextmanager
def api_server(folder: Path, programs: Programs) -> Iterator[ApiServer]:
    """An empty one, ready. Its files and logs are in `folder`."""
    port, etcd_port, peer_port = free_ports(3)
    certificates = make_certificates(folder, client_group=ADMIN_GROUP)
    url, etcd_url = f"https://127.0.0.1:{port}", f"http://127.0.0.1:{etcd_port}"
    kubeconfig = folder / "kubeconfig.yaml"
    kubeconfig.write_text(yaml.safe_dump(_kubeconfig(url, certificates)), encoding="utf-8")
    etcd = _etcd(programs.etcd, folder, etcd_url, f"http://127.0.0.1:{peer_port}")
    server = _server(programs.api_server, port, etcd_url, certificates, kubeconfig)
    with (
        _running(etcd, folder / "etcd.log"),
        _running(server, folder / "api-server.log") as process,
        httpx.Client(base_url=url, verify=_tls(certificates), timeout=30) as client,
    ):
        _wait_until_ready(client, process, folder / "api-server.log")
        yield ApiServer(url=url, client=client, certificates=certificates, kubeconfig=kubeconfig)


def _etcd(program: Path, folder: Path, url: str, peer_url: str) -> list[str]:
    return [
        *(str(program), "--name=test", f"--data-dir={folder / 'etcd'}", f"--initial-cluster=test={peer_url}"),
        *(f"--listen-client-urls={url}", f"--advertise-client-urls={url}"),
        *(f"--listen-peer-urls={peer_url}", f"--initial-advertise-peer-urls={peer_url}"),
    ]


def _server(program: Path, port: int, etcd_url: str, certificates: Certificates, kubeconfig: Path) -> list[str]:
    """It asks itself who may do what, which it never has to: administrators may do all."""
    return [
        *(str(program), f"--etcd-servers={etcd_url}", f"--secure-port={port}", "--bind-address=127.0.0.1"),
        *(f"--tls-cert-file={certificates.server}", f"--tls-private-key-file={certificates.server}"),
        *(f"--client-ca-file={certificates.authority}", "--authentication-skip-lookup"),
        *(f"--{use}kubeconfig={kubeconfig}" for use in ("", "authentication-", "authorization-")),
        f"--disable-admission-plugins={_NEEDING_A_CORE}",
        "--enable-priority-and-fairness=false",
    ]


def _kubeconfig(url: str, certificates: Certificates) -> dict[str, object]:
    user = {"client-certificate": str(certificates.client_certificate), "client-key": str(certificates.client_key)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": {"server": url, "certificate-authority": str(certificates.authority)}}],
        "users": [{"name": "admin", "user": user}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "admin"}}],
        "current-context": "it",
    }


def _tls(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificates.authority)
    context.load_cert_chain(certificates.client_store)
    return context


@contextmanager
def _running(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as said:
        process = subprocess.Popen(command, cwd=log.parent, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_ready(client: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + _START_LIMIT_S
    while not _is_ready(client):
        assert process.poll() is None, f"the API server ended: {log.read_text()[-2000:]}"
        assert time.monotonic() < deadline_s, f"the API server is not ready: {log.read_text()[-2000:]}"
        time.sleep(0.1)


def _is_ready(client: httpx.Client) -> bool:
    """`/readyz` never says so: it waits for Services, of which a server without a core group has none."""
    try:
        return client.get(DEFINITIONS_PATH).is_success
    except httpx.TransportError:
        return False
