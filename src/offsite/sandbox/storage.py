"""Format a broker's data folder. Never touches a formatted folder.

Kafka's own StorageTool formats, at the price of a second JVM (1.2 s). Besides the ids, its output is the same for every
folder without SCRAM users: the feature levels in `bootstrap.checkpoint`. So the file is made once, kept beside the
jars, and copied from then on.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

from offsite.model.errors import SandboxFailed
from offsite.sandbox.java import Jvm

CHECKPOINT = "bootstrap.checkpoint"
META = "meta.properties"
FORMAT_LIMIT_S = 60  # takes 1.2 s; a loaded CI machine may be ten times slower


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of the folder's node. `scram_users`: arguments of StorageTool's `--add-scram`."""

    cluster_id: str
    node_id: int = 1
    scram_users: tuple[str, ...] = ()


def format_storage(data: Path, identity: Identity, *, jvm: Jvm, config: Path) -> None:
    """Make `data` a formatted, empty folder of the node, unless already formatted. Raises SandboxFailed.

    `meta.properties` comes last and atomically: after an earlier crash the folder counts as not formatted.
    """
    if (data / META).exists():
        return
    data.mkdir(parents=True, exist_ok=True)
    if identity.scram_users:
        _run_storage_tool(identity, jvm, config)
        return
    template = jvm.jars / CHECKPOINT
    if template.exists():
        shutil.copyfile(template, data / CHECKPOINT)
        _write_meta(data, identity)
    else:
        _run_storage_tool(identity, jvm, config)
        _keep(data / CHECKPOINT, template)


def cluster_id_of(data: Path) -> str:
    """Return the cluster id of a formatted folder; empty for another folder."""
    meta = data / META
    lines = meta.read_text(encoding="ascii").splitlines() if meta.exists() else []
    return next((line.partition("=")[2] for line in lines if line.startswith("cluster.id=")), "")


def _run_storage_tool(identity: Identity, jvm: Jvm, config: Path) -> None:
    scram = [argument for user in identity.scram_users for argument in ("--add-scram", user)]
    arguments = ["format", "--cluster-id", identity.cluster_id, "--config", str(config), *scram]
    completed = subprocess.run(
        jvm.command("kafka.tools.StorageTool", arguments),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=FORMAT_LIMIT_S,
        check=False,
    )
    if completed.returncode:
        raise SandboxFailed(
            f"the sandbox's storage could not be formatted:\n{completed.stdout}{completed.stderr}".rstrip()
        )


def _write_meta(data: Path, identity: Identity) -> None:
    ids = f"cluster.id={identity.cluster_id}\nnode.id={identity.node_id}\ndirectory.id={new_id()}\n"
    arriving = data / f".{META}"
    arriving.write_text(f"version=1\n{ids}", encoding="ascii")
    arriving.replace(data / META)


def _keep(checkpoint: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as arriving:
        shutil.copyfile(checkpoint, Path(arriving, CHECKPOINT)).replace(target)


def new_id() -> str:
    """Return a random Kafka Uuid: URL-safe base64 without padding. Kafka refuses a leading dash, so another id is
    drawn."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text
