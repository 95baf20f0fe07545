"""Finds a cluster of Strimzi: where a listener is, and how a KafkaUser logs in there. Reads the resources Kafka and
KafkaUser by the newest version that the API server offers, and never a Secret.

The status of Kafka has the addresses and certificates of listeners, its spec the authentication. Source: Strimzi's
`ListenerStatus`, `GenericKafkaListener` and `KafkaUserStatus`, `api` 0.51.0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from offsite.kafka.config import parse_bootstrap
from offsite.model.errors import BadKafkaConfig, BadResource, ListenerNotReady
from offsite.operator.kubernetes.api import Body, KubernetesApi
from offsite.operator.resources.backup import StrimziListener

STRIMZI_GROUP = "kafka.strimzi.io"
STRIMZI_KINDS = ("kafkas", "kafkausers")
_VERSIONS = ("v1", "v1beta2")
"""The newest first."""
_TLS, _SCRAM = "tls", "scram-sha-512"
_SECRET_KEYS: Mapping[str, tuple[str, ...]] = {"": (), _TLS: ("user.crt", "user.key"), _SCRAM: ("password",)}
"""What the Secret of a user has for each authentication that offsite can use without a file of its own."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_ESCAPED = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StrimziAccess:
    """The way to a listener. `properties`: a file `client.properties` without a secret, which names the files of the
    Secret. `secret`: the Secret of the user in the namespace of the agents, empty for a listener without
    authentication, and its `keys`."""

    properties: str
    secret: str = ""
    keys: tuple[str, ...] = ()


def find_access(api: KubernetesApi, source: StrimziListener, namespace: str, *, folder: str) -> StrimziAccess:
    """Find the way to a listener. `namespace`: that of the Backup; `folder`: where agents find the files of the Secret.

    No value of a status may name a file of the agents: the status is of people who may not read the Secret.

    Raises `ListenerNotReady`; `BadResource` where Strimzi, the cluster, the listener or the user is missing, and for an
    authentication that needs more than a KafkaUser; and the errors of the API.
    """
    place = f"/apis/{STRIMZI_GROUP}/{_version(api)}/namespaces/{source.namespace or namespace}"
    kafka = _resource(api, f"{place}/kafkas/{source.name}", f"Kafka {source.name}")
    declared = _declared_listener(kafka, source)
    authentication = _authentication(declared, source)
    keys = _SECRET_KEYS[authentication]
    user = _user(api, f"{place}/kafkausers/{source.user}", source, authentication) if keys else {}
    username = {"sasl.username": str(user.get("username") or source.user)} if authentication == _SCRAM else {}
    of_status = {**_address(kafka, source), **username}
    if odd := next((name for name, value in of_status.items() if "${" in value), ""):
        raise BadResource(f"spec.strimzi: the status has no plain {odd}", hint="who wrote ${ there, and what for?")
    protocol = _protocol(authentication, is_encrypted=bool(declared.get("tls")))
    properties = {**of_status, "security.protocol": protocol, **_login(authentication, folder)}
    text = "".join(f"{name}={value.translate(_ESCAPED)}\n" for name, value in properties.items())
    return StrimziAccess(properties=text, secret=str(user.get("secret", "")), keys=keys)


def _version(api: KubernetesApi) -> str:
    offered = api.get(f"/apis/{STRIMZI_GROUP}") or {}
    names = {version.get("version") for version in offered.get("versions") or ()}
    newest = next((version for version in _VERSIONS if version in names), None)
    if newest is None:
        raise BadResource(
            f"the API server offers {STRIMZI_GROUP} in no version of {', '.join(_VERSIONS)}",
            hint="is Strimzi installed?",
        )
    return newest


def _resource(api: KubernetesApi, path: str, shown: str) -> Body:
    if (resource := api.get(path)) is None:
        raise BadResource(f"spec.strimzi: there is no {shown} at {path}", hint="name one that exists")
    return resource


def _declared_listener(kafka: Body, source: StrimziListener) -> Mapping[str, Any]:
    of_kafka = (kafka.get("spec") or {}).get("kafka") or {}  # the API server takes a Kafka without a spec
    listeners = {listener["name"]: listener for listener in of_kafka.get("listeners") or ()}
    if source.listener not in listeners:
        raise BadResource(
            f"spec.strimzi: Kafka {source.name} has no listener {source.listener}",
            hint=f"its listeners: {', '.join(sorted(listeners)) or 'none'}",
        )
    declared: Mapping[str, Any] = listeners[source.listener]
    return declared


def _authentication(declared: Mapping[str, Any], source: StrimziListener) -> str:
    """The authentication of a listener; empty for none."""
    authentication = str((declared.get("authentication") or {}).get("type", ""))
    if authentication not in _SECRET_KEYS:
        raise BadResource(
            f"spec.strimzi: listener {source.listener} asks for {authentication}, which no KafkaUser has",
            hint="remove spec.strimzi, and put a client.properties with that login into the Secret of the cluster",
        )
    if authentication and not source.user:
        raise BadResource(
            f"spec.strimzi: listener {source.listener} asks for {authentication}", hint="name a KafkaUser as user"
        )
    return authentication


def _user(api: KubernetesApi, path: str, source: StrimziListener, authentication: str) -> Mapping[str, Any]:
    """The status of the KafkaUser, with its Secret."""
    user = _resource(api, path, f"KafkaUser {source.user}")
    declared = str(((user.get("spec") or {}).get("authentication") or {}).get("type", ""))
    if declared != authentication:
        raise BadResource(
            f"spec.strimzi: KafkaUser {source.user} has the authentication {declared or 'none'}, and listener "
            f"{source.listener} asks for {authentication}",
            hint="name a user or a listener with the same authentication",
        )
    status: Mapping[str, Any] = user.get("status") or {}
    if not status.get("secret"):
        raise ListenerNotReady(f"KafkaUser {source.user} has no Secret yet", hint="Strimzi's User Operator makes it")
    if not _NAME.fullmatch(str(status["secret"])):  # it becomes a part of paths of the API
        raise BadResource(f"spec.strimzi: the status of KafkaUser {source.user} names no Secret", hint="who wrote it?")
    return status


def _address(kafka: Body, source: StrimziListener) -> dict[str, str]:
    listeners: Sequence[Mapping[str, Any]] = (kafka.get("status") or {}).get("listeners") or ()
    status = next((listener for listener in listeners if listener.get("name") == source.listener), None) or {}
    bootstrap, certificates = _bootstrap(status), status.get("certificates") or ()
    if not bootstrap:
        raise ListenerNotReady(
            f"listener {source.listener} of Kafka {source.name} is not ready",
            hint="the status of the resource Kafka has no address of it",
        )
    try:
        parse_bootstrap(bootstrap)
    except BadKafkaConfig as error:
        raise BadResource(f"Kafka {source.name}: status.listeners: {error.message}") from error
    trusted = {"ssl.truststore.certificates": "\n".join(map(str, certificates))} if certificates else {}
    return {"bootstrap.servers": bootstrap, **trusted}


def _bootstrap(status: Mapping[str, Any]) -> str:
    """The addresses of a listener; empty for none. `bootstrapServers` has IPv6 addresses without brackets, so that host
    and port cannot be told apart: `addresses` has each for itself, in any order."""
    addresses = [(str(address.get("host") or ""), address.get("port")) for address in status.get("addresses") or ()]
    if any(":" in host for host, _ in addresses):
        return ",".join(sorted({f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses}))
    return str(status.get("bootstrapServers") or "")


def _protocol(authentication: str, *, is_encrypted: bool) -> str:
    protocol = "SSL" if is_encrypted else "PLAINTEXT"
    return f"SASL_{protocol}" if authentication == _SCRAM else protocol


def _login(authentication: str, folder: str) -> dict[str, str]:
    """Settings that name the files of the Secret: the Secret of a user who changes keys needs no other settings."""
    if authentication == _TLS:
        return {"ssl.certificate.location": f"{folder}/user.crt", "ssl.key.location": f"{folder}/user.key"}
    if authentication == _SCRAM:
        return {
            "config.providers": "secret",
            "config.providers.secret.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.password": f"${{secret:{folder}:password}}",
        }
    return {}
