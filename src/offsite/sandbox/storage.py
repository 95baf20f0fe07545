"""Formats a broker's data folder. Never touches one that is formatted already.

Kafka's own StorageTool does it, at the price of a second JVM (1.2 s). What it writes besides the ids is the same for
every folder without SCRAM users: the feature levels in `bootstrap.checkpoint`. So that file is made once, kept beside
the jars, and copied from then on.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

from offsite.model.errors import SandboxFailed
from offsite.sandbox.jvm import Jvm
from offsite.sandbox.settings import NODE_ID

CHECKPOINT = "bootstrap.checkpoint"
META = "meta.properties"
FORMAT_LIMIT_S = 60  # takes 1.2 s; a loaded CI machine may be ten times slower


def format_storage(data: Path, *, jvm: Jvm, config: Path, scram_users: tuple[str, ...]) -> None:
    """Make `data` a formatted, empty broker folder with a new cluster id, unless it is one. Raises SandboxFailed.

    `meta.properties` comes last and atomically: after a crash before it, the folder counts as not formatted.
    """
    if (data / META).exists():
        return
    data.mkdir(parents=True, exist_ok=True)
    if scram_users:
        _run_storage_tool(jvm, config, scram_users)
        return
    kept = jvm.jars / CHECKPOINT
    if kept.exists():
        shutil.copyfile(kept, data / CHECKPOINT)
        _write_meta(data)
    else:
        _run_storage_tool(jvm, config, ())
        _keep(data / CHECKPOINT, kept)


def _run_storage_tool(jvm: Jvm, config: Path, scram_users: tuple[str, ...]) -> None:
    scram = [argument for user in scram_users for argument in ("--add-scram", user)]
    arguments = ["format", "--cluster-id", _new_id(), "--config", str(config), *scram]
    done = subprocess.run(
        jvm.command("kafka.tools.StorageTool", arguments),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=FORMAT_LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise SandboxFailed(f"the sandbox's storage could not be formatted:\n{done.stdout}{done.stderr}".rstrip())


def _write_meta(data: Path) -> None:
    arriving = data / f".{META}"
    arriving.write_text(
        f"version=1\ncluster.id={_new_id()}\nnode.id={NODE_ID}\ndirectory.id={_new_id()}\n", encoding="ascii"
    )
    arriving.replace(data / META)


def _keep(checkpoint: Path, kept: Path) -> None:
    with tempfile.TemporaryDirectory(dir=kept.parent) as arriving:
        shutil.copyfile(checkpoint, Path(arriving, CHECKPOINT)).replace(kept)


def _new_id() -> str:
    """A random Kafka Uuid: URL-safe base64 without padding. Kafka refuses a leading dash, so another one is drawn."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text
