"""`offsite operator run --kubernetes`: the operator of resources declared in Kubernetes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options.common import checked_places
from offsite.cli.output import note
from offsite.model.clock import Clock, SystemClock
from offsite.model.errors import BadOption

if TYPE_CHECKING:
    from offsite.operator.core.monitor import Home
    from offsite.operator.decide.queue import QueueRules
    from offsite.operator.kubernetes.pod import HomeRules


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesOptions:
    """Options for Kubernetes beside the options of all homes, as typed."""

    kubernetes: Annotated[
        bool,
        typer.Option("--kubernetes", help="Manage the resources of a Kubernetes cluster, instead of a folder."),
    ] = False
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            envvar="OFFSITE_NAMESPACES",
            help="With --kubernetes: only this namespace; may be repeated. In the variable, separate namespaces by "
            "blanks.",
        ),
    ] = None
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            help="With --kubernetes: a folder or URL where several operators of the same Backups share the count of "
            "first copies. By default each operator counts its own.",
            callback=checked_places,
        ),
    ] = None
    accounts: Annotated[
        Path, typer.Option("--accounts", help="With --kubernetes: the accounts, as in accounts.yaml of a folder.")
    ] = Path("/etc/offsite/accounts.yaml")
    agent_image: Annotated[
        str | None,
        typer.Option(
            "--agent-image",
            envvar="OFFSITE_AGENT_IMAGE",
            show_envvar=True,
            help="With --kubernetes: the image of agents without an image in their template.",
        ),
    ] = None
    allow_image: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-image",
            envvar="OFFSITE_ALLOWED_IMAGES",
            help="With --kubernetes: an image that templates may name, besides the image of agents; may be repeated. "
            "In the variable, separate images by blanks.",
        ),
    ] = None
    allow_metadata: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-metadata",
            envvar="OFFSITE_ALLOWED_METADATA",
            help="With --kubernetes: name of a label or an annotation that templates may set on pods of agents; may be "
            "repeated. In the variable, separate names by blanks.",
        ),
    ] = None
    metrics_port: Annotated[
        str | None,
        typer.Option("--metrics-port", help="Where to show metrics and answer probes, as 9464 or 0.0.0.0:9464."),
    ] = None


def run_in_kubernetes(options: KubernetesOptions, queue: QueueRules, *, every_s: float, initial_copies: int) -> None:
    """Run until SIGINT or SIGTERM. Raises `BadOption`, and `KubernetesUnavailable` without a login."""
    _check_installed()
    from offsite.operator.kubernetes.api import HttpKubernetesApi
    from offsite.operator.kubernetes.home import KubernetesHome
    from offsite.operator.kubernetes.kopf_operator import log_in, run

    log_in()  # who cannot is told so now: later it may pass
    clock = SystemClock()
    home = KubernetesHome(HttpKubernetesApi(log_in), _rules(options, queue, initial_copies), clock=clock)
    with serve_probes(home, options.metrics_port, clock):
        run(home, namespaces=options.namespace or (), every_s=every_s)
    note("stopped; agents continue")


def check_not_given(options: KubernetesOptions) -> None:
    """Refuse options for Kubernetes in a folder. Raises `BadOption`."""
    kubernetes_only = {"--namespace": options.namespace, "--state": options.state}
    if wrong := [name for name, value in kubernetes_only.items() if value]:
        raise BadOption(f"{', '.join(wrong)} works only with --kubernetes", hint="add --kubernetes, or omit the option")


def _rules(options: KubernetesOptions, queue: QueueRules, initial_copies: int) -> HomeRules:
    from offsite.model.version import __version__
    from offsite.operator.kubernetes.pod import HomeRules

    return HomeRules(
        accounts=options.accounts.absolute(),
        folder=_folder(),
        image=options.agent_image or f"offsite:{__version__}",
        images=options.allow_image or (),
        metadata=options.allow_metadata or (),
        namespaces=options.namespace or (),
        state=options.state or "",
        initial_copies=initial_copies,
        queue=queue,
    )


@contextmanager
def serve_probes(home: Home, port: str | None, clock: Clock) -> Iterator[None]:
    """A context in which probes are answered, if requested."""
    from offsite.monitor.server import StatusServer, parse_address
    from offsite.operator.core.monitor import HomeMonitor

    if port is None:
        yield
        return
    with StatusServer(HomeMonitor(home=home, clock=clock), listen=parse_address(port), clock=clock) as server:
        note(f"metrics on http://{server.address}/metrics")
        yield


def _folder() -> Path:
    """Return the folder for notes of the process about its expiry jobs."""
    states = os.environ.get("XDG_STATE_HOME")
    return Path(states or Path.home() / ".local" / "state").absolute() / "offsite" / "operator"


def _check_installed() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("cronsim", "kopf", "pydantic", "yaml") if find_spec(name) is None]
    if missing:
        raise BadOption(f"{', '.join(missing)} is not installed", hint="install it: pip install 'offsite[kubernetes]'")
