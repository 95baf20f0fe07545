"""Runs the home under kopf: kopf watches resources, keeps the finalizer, and repeats unfinished calls. The only file
that imports kopf.

Rounds run beside kopf, not by timers of kopf: kopf's timers would put the finalizer on every resource, but only
resources with work before their deletion have the finalizer. Rounds also find changes without an event: ended agents, a
repository that answers again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import kopf

from offsite.model.errors import KubernetesUnavailable, OffsiteError
from offsite.model.journal import warned
from offsite.operator.kubernetes.api import Access
from offsite.operator.kubernetes.home import KubernetesHome, wants_finalizer
from offsite.operator.resources.backup import FINALIZER
from offsite.operator.resources.definition import DEFINITIONS
from offsite.operator.resources.model import GROUP, VERSION

STATE_PREFIX = f"kopf.{GROUP}"
"""The prefix of the annotations of kopf."""
AGAIN_S = 2.0
"""Time between two checks whether a deletion is finished."""
_AFTER_ERROR_S = 5.0


class HashedSpecs(kopf.AnnotationsDiffBaseStorage):
    """Notes by a hash what a resource was when it was handled last: all annotations of an object together are shorter
    than a spec may be, and where the note is refused the finalizer stays for ever: both are written in one step."""

    def build(self, *, body: kopf.Body, extra_fields: Any = None) -> kopf.BodyEssence:  # noqa: ANN401  # as kopf has it
        essence = super().build(body=body, extra_fields=extra_fields)
        return {"spec": {"hash": hashlib.sha256(json.dumps(essence, sort_keys=True).encode()).hexdigest()}}


def log_in() -> Access:
    """Log in as a pod, or else as a person by KUBECONFIG. Raises `KubernetesUnavailable` if both are missing."""
    connection = _logged_in(kopf.OperatorSettings())
    if connection is None:
        raise KubernetesUnavailable("there is no service account and no kubeconfig", hint="set KUBECONFIG")
    tls = connection.as_ssl_context() if connection.server.startswith("https:") else None
    return Access(url=connection.server, headers=connection.as_http_headers(), tls=tls)


def run(home: KubernetesHome, *, namespaces: Sequence[str], every_s: float) -> None:
    """Manage all resources until SIGINT or SIGTERM. Agents continue afterwards. `every_s`: seconds between two
    rounds."""
    logging.getLogger("kopf").setLevel(logging.WARNING)
    registry = kopf.OperatorRegistry()
    _register(registry, home, every_s)
    kopf.run(
        registry=registry,
        settings=_settings(),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
    )


def _register(registry: kopf.OperatorRegistry, home: KubernetesHome, every_s: float) -> None:
    """Register the handlers with explicit ids: kopf puts the ids into names of annotations, and names of nested
    functions would be refused."""
    rounds = list[asyncio.Task[None]]()

    @kopf.on.startup(registry=registry)
    async def begin(**_: object) -> None:
        rounds.append(asyncio.create_task(_rounds(home, every_s)))

    @kopf.on.cleanup(registry=registry)
    async def end(**_: object) -> None:
        for task in rounds:
            task.cancel()

    @kopf.on.login(registry=registry)
    def login(settings: kopf.OperatorSettings, **_: object) -> kopf.ConnectionInfo | None:
        return _logged_in(settings)

    for definition in DEFINITIONS.values():
        _look_after(registry, home, (GROUP, VERSION, definition.plural))


def _look_after(registry: kopf.OperatorRegistry, home: KubernetesHome, resources: tuple[str, str, str]) -> None:
    """Register the handlers of a kind."""

    @kopf.on.resume(*resources, registry=registry, id="keep")
    @kopf.on.create(*resources, registry=registry, id="keep")
    @kopf.on.update(*resources, registry=registry, id="keep")
    def keep(body: kopf.Body, **_: object) -> None:
        home.note_change(body)

    @kopf.on.delete(
        *resources, registry=registry, id="let-go", when=lambda body, **_: wants_finalizer(body), backoff=_AFTER_ERROR_S
    )
    def let_go(body: kopf.Body, **_: object) -> None:
        if not home.may_go(body):
            raise kopf.TemporaryError("some work is left before it can be deleted", delay=AGAIN_S)

    @kopf.on.event(*resources, registry=registry)
    async def gone(event: kopf.RawEvent, **_: object) -> None:
        if event["type"] == "DELETED":
            home.note_deletion(event["object"])


async def _rounds(home: KubernetesHome, every_s: float) -> None:
    while True:
        try:
            await asyncio.to_thread(home.round)
        except Exception as error:  # noqa: BLE001  # the next round may do better, and must come
            message = error.message if isinstance(error, OffsiteError) else repr(error)
            warned("round", error=getattr(error, "id", type(error).__name__), why=message)
        await asyncio.sleep(every_s)


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.persistence.finalizer = FINALIZER
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=STATE_PREFIX)
    settings.persistence.diffbase_storage = HashedSpecs(prefix=STATE_PREFIX)
    settings.posting.enabled = False  # conditions tell it, and stay
    settings.execution.executor = ThreadPoolExecutor(max_workers=4)  # they do little
    return settings


def _logged_in(settings: kopf.OperatorSettings) -> kopf.ConnectionInfo | None:
    arguments: Mapping[str, Any] = {"settings": settings, "logger": logging.getLogger("kopf")}
    return kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)
