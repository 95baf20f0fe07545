"""offsite and what its tasks import, in one archive for executors that have neither: a minimal one, made by hand."""

from __future__ import annotations

import io
import re
import sys
import tarfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHON = "bin/python"
"""In the archive: it finds what is there first, and then what Spark puts on the path of its workers."""
_LEFT_OUT = {"pyspark", "py4j", "colorama"}
"""Of the packages of offsite: what Spark brings, and what is for another system."""
_LAUNCHER = """#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd -P)
PYTHONPATH=$here/lib${{PYTHONPATH:+:$PYTHONPATH}} exec {python} "$@"
"""


def write_archive(file: Path) -> Path:
    """`file`, a tar.gz. Its Python is the one of this machine, as in an archive of venv-pack."""
    with tarfile.open(file, "w:gz", compresslevel=1) as archive:
        launcher = tarfile.TarInfo(PYTHON)
        launcher.mode, data = 0o755, _LAUNCHER.format(python=plain_python()).encode()
        launcher.size = len(data)
        archive.addfile(launcher, io.BytesIO(data))
        for source, name in _files():
            archive.add(source, f"lib/{name}")
    return file


def plain_python() -> Path:
    """The Python that this environment is made of, which has no package of it."""
    return Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")


def _files() -> Iterator[tuple[Path, str]]:
    for package in _packages():
        for file in metadata.distribution(package).files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                yield Path(str(file.locate())), str(file)
    for source in (ROOT / "src").rglob("*"):
        if source.is_file() and "__pycache__" not in source.parts:
            yield source, str(source.relative_to(ROOT / "src"))


def _packages() -> Iterator[str]:
    lines = (ROOT / "requirements" / "runtime.txt").read_text(encoding="utf-8").splitlines()
    pinned = (re.match(r"([a-z][\w.-]*)==", line) for line in lines)
    return (found[1] for found in pinned if found and found[1] not in _LEFT_OUT)
