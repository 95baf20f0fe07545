"""A pod of a Deployment as a process: its command, its variables and its files at their paths, and nothing else of this
machine's environment. The mounts are of a mount namespace of its own.

Not played: the image (programs and libraries are this machine's), the user and the read-only root of a container, and
the network.
"""

from __future__ import annotations

import base64
import functools
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

Secrets = Mapping[str, Mapping[str, str]]
"""Name of a Secret to its data, in Base64, as the API has it."""


@functools.cache
def unshare() -> tuple[str, ...]:
    """The words before a command that runs it among mounts of its own; none where that cannot be had."""
    as_root = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    words = ("unshare", *as_root, "--mount")
    try:
        done = subprocess.run([*words, "mount", "-t", "tmpfs", "none", "/mnt"], check=False, capture_output=True)
    except OSError:
        return ()
    return words if done.returncode == 0 else ()


@contextmanager
def running_pod(
    template: Mapping[str, Any], secrets: Secrets, *, folder: Path, visible: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """The only container of the pod template, with what it prints in `folder/printed`. `visible`: a folder of this
    machine that is there as well, for a repository."""
    (container,) = template["spec"]["containers"]
    files = {volume["name"]: _files(volume, template, secrets) for volume in template["spec"]["volumes"]}
    volumes = {name: _written(name, contents, folder) for name, contents in files.items()}
    script = _mounts(container, volumes, folder, visible) + f"exec {shlex.join(map(_expanded, container['command']))}\n"
    with (folder / "printed").open("wb") as printed:
        process = subprocess.Popen(
            [*unshare(), "sh", "-euc", script],
            env=_variables(container, secrets),
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


Files = Mapping[str, tuple[bytes, int]]
"""Name of a file in a volume to its content and its mode."""


def _files(volume: Mapping[str, Any], template: Mapping[str, Any], secrets: Secrets) -> Files:
    if "secret" in volume:
        source = {"secret": {**volume["secret"], "name": volume["secret"]["secretName"]}}
        return _projected([source], template, secrets, mode=volume["secret"].get("defaultMode", 0o644))
    projected = volume.get("projected", {"sources": []})
    return _projected(projected["sources"], template, secrets, mode=projected.get("defaultMode", 0o644))


def _projected(
    sources: Sequence[Mapping[str, Any]], template: Mapping[str, Any], secrets: Secrets, *, mode: int
) -> Files:
    files: dict[str, tuple[bytes, int]] = {}
    for source in sources:
        for item in source.get("downwardAPI", {}).get("items", ()):
            name = item["fieldRef"]["fieldPath"].removeprefix("metadata.annotations['").removesuffix("']")
            files[item["path"]] = (template["metadata"]["annotations"][name].encode(), mode)
        if "secret" in source:
            data = secrets[source["secret"]["name"]]
            items = source["secret"].get("items") or [{"key": key, "path": key} for key in data]
            files |= {item["path"]: (base64.b64decode(data[item["key"]]), mode) for item in items}
    return files


def _written(name: str, files: Files, folder: Path) -> Path:
    (place := folder / "volumes" / name).mkdir(parents=True)
    for path, (content, mode) in files.items():
        (file := place / path).write_bytes(content)
        file.chmod(mode)
    return place


def _mounts(container: Mapping[str, Any], volumes: Mapping[str, Path], folder: Path, visible: Path) -> str:
    """Commands of a shell. The machine's `/tmp` is hidden by the volume there: what the process needs of it comes into
    the volume."""
    (settings := folder / "etc").mkdir()
    lines = [f"cp -a /etc/. {settings}", "mount -t tmpfs none /mnt", f"mount --rbind {settings} /etc"]
    for mount in container["volumeMounts"]:
        volume, path = volumes[mount["name"]], mount["mountPath"]
        for needed in (visible, ROOT, Path(sys.prefix)) if path == "/tmp" else ():
            if needed.is_relative_to(path):
                place = volume / needed.relative_to(path)
                lines += [f"mkdir -p {place}", f"mount --rbind {needed} {place}"]
        lines += [f"mkdir -p {path}", f"mount --rbind {volume} {path}"]
    mounts_last = [line for line in lines if line.endswith(" /tmp")]
    return "\n".join([*(line for line in lines if line not in mounts_last), *mounts_last, "cd /", ""])


def _variables(container: Mapping[str, Any], secrets: Secrets) -> Mapping[str, str]:
    """Those of the image, of the Secrets, and of the container, the later over the earlier ones."""
    variables = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for source in container["envFrom"]:
        variables |= {
            name: base64.b64decode(value).decode() for name, value in secrets[source["secretRef"]["name"]].items()
        }
    return variables | {variable["name"]: _expanded(variable["value"]) for variable in container["env"]}


def _expanded(text: str) -> str:
    assert "$(" not in text.replace("$$", "")
    return text.replace("$$", "$")
