"""A real API server of Kubernetes, with its etcd, on free loopback ports, ended with the test. There are two.

The small one, for custom resources, serves definitions and what they define, and nothing else: no core group, no
namespaces, and 404 on `/api` and `/apis`. Who needs those (a client that asks what there is, events, Deployments) puts
a proxy in front of it. The whole one is Kubernetes' own, with roles, accounts and pods, which nobody runs: there is no
controller, scheduler or kubelet. It takes minutes to compile.
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

from offsite.sandbox.settings import free_ports
from tests.certificates import Certificates, make_certificates
from tests.fetched_tools import debian_tool, go_module, go_program, go_tool

VERSION = "v0.35.0"
"""Of apiextensions-apiserver, which is that of Kubernetes 1.35."""
DEFINITIONS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMIN_GROUP = "system:masters"
WHOLE_VERSION = "v1.35.0"
_PARTS = (
    "api", "apiextensions-apiserver", "apimachinery", "apiserver", "cli-runtime", "client-go", "cloud-provider",
    "cluster-bootstrap", "code-generator", "component-base", "component-helpers", "controller-manager", "cri-api",
    "cri-client", "csi-translation-lib", "dynamic-resource-allocation", "endpointslice", "externaljwt", "kms",
    "kube-aggregator", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet", "metrics",
    "mount-utils", "pod-security-admission", "sample-apiserver", "sample-cli-plugin", "sample-controller",
)  # fmt: skip
"""Modules that the repository of Kubernetes has beside its own, and takes from there: it names no version of them."""
_MODULE = "k8s.io/apiextensions-apiserver"
_NEEDING_A_CORE = (
    "NamespaceLifecycle,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,"
    "ValidatingAdmissionPolicy,MutatingAdmissionPolicy"
)
AUDIT = "audit.log"
"""A line of JSON for each request to the whole server."""
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [{"level": "Metadata"}],
    "omitStages": ["RequestReceived", "ResponseStarted"],
}
_START_LIMIT_S = 120.0
_END_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """`is_whole`: all of Kubernetes is served, not custom resources alone."""

    etcd: Path
    api_server: Path
    is_whole: bool = False


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


def fetched_whole_programs() -> Programs:
    """Raises `NoTool`. The first time takes ten minutes of two cores."""
    name = f"kube-apiserver-{WHOLE_VERSION}"
    parts = {f"k8s.io/{part}": VERSION for part in _PARTS}
    module = go_module(requires={"k8s.io/kubernetes": WHOLE_VERSION}, replaces=parts)
    return Programs(
        etcd=debian_tool("etcd", package="etcd-server"),
        api_server=go_program(name, package="k8s.io/kubernetes/cmd/kube-apiserver", module=module),
        is_whole=True,
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
    if programs.is_whole:
        server = _whole_server(programs.api_server, port, etcd_url, certificates, folder)
    else:
        server = _server(programs.api_server, port, etcd_url, certificates, kubeconfig)
    with (
        _running(etcd, folder / "etcd.log"),
        _running(server, folder / "api-server.log") as process,
        httpx.Client(base_url=url, verify=_tls(certificates), timeout=30) as client,
    ):
        _wait_until_ready(client, process, folder / "api-server.log", is_whole=programs.is_whole)
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


def _whole_server(program: Path, port: int, etcd_url: str, certificates: Certificates, folder: Path) -> list[str]:
    """What it is asked, and by whom, is in `folder`, in `AUDIT`."""
    policy = folder / "audit-policy.yaml"
    policy.write_text(yaml.safe_dump(_AUDIT_POLICY), encoding="utf-8")
    issuer = ("issuer=https://127.0.0.1", f"signing-key-file={certificates.server}", f"key-file={certificates.server}")
    return [
        *(str(program), f"--etcd-servers={etcd_url}", f"--secure-port={port}", "--bind-address=127.0.0.1"),
        *(f"--tls-cert-file={certificates.server}", f"--tls-private-key-file={certificates.server}"),
        *(f"--client-ca-file={certificates.authority}", f"--cert-dir={folder / 'certificates'}"),
        *(f"--service-account-{each}" for each in issuer),
        *("--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none"),
        *(f"--audit-policy-file={policy}", f"--audit-log-path={folder / AUDIT}"),
        "--feature-gates=WatchList=false",  # Debian's etcd cannot do what it needs
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


def _wait_until_ready(client: httpx.Client, process: subprocess.Popen[bytes], log: Path, *, is_whole: bool) -> None:
    """The small server never says that it is ready: it waits for Services, of which it has none."""
    path = "/readyz" if is_whole else DEFINITIONS_PATH
    deadline_s = time.monotonic() + _START_LIMIT_S
    while not _is_ready(client, path):
        assert process.poll() is None, f"the API server ended: {log.read_text()[-2000:]}"
        assert time.monotonic() < deadline_s, f"the API server is not ready: {log.read_text()[-2000:]}"
        time.sleep(0.1)


def _is_ready(client: httpx.Client, path: str) -> bool:
    try:
        return client.get(path).is_success
    except httpx.TransportError:
        return False
