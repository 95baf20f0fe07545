"""`offsite spark pack`: the offsite of the environment, with its requirements, as an archive for executors.

PEX packs the installed libraries, and asks no index. offsite itself is added as files: for an editable install PEX
would build a wheel, which takes a network. pyspark stays out: Spark brings its own.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from pathlib import Path

from offsite.engine.executor_archive import MANIFEST, ExecutorArchiveManifest, manifest_json, own_manifest
from offsite.model.errors import BadOption, BadSparkArchive
from offsite.model.machine import OWN_PYTHON
from offsite.stores.plain_files import check_replaceable

PACKAGES = ("offsite", "offsite_participant", "pyspark_offsite")
BROUGHT_BY_SPARK = ("pyspark", "py4j")

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"\bextra\s*==")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackPlan:
    requirements: tuple[str, ...]
    """Of installed distributions; their requirements go with them."""
    packages: tuple[Path, ...]
    """Folders that are added unchanged."""
    manifest: ExecutorArchiveManifest


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedArchive:
    path: str
    file_bytes: int
    sha256: str
    offsite: str
    python: str
    platform: str


def pack(file: Path, *, extra: Sequence[str] = (), compress: bool = True) -> PackedArchive:
    """Make the archive `file`, completely or not at all; an existing file is replaced. `extra`: further installed
    distributions for executors. Without `compress` the archive takes a fifth of the time and is three times as large.

    The same environment gives the same bytes. Raises `BadSparkArchive` where the archive cannot be made, `BadOption`
    where `file` cannot be written.
    """
    _check_environment()
    plan = plan_pack(_declared(), _folders(), extra=extra)
    try:
        check_replaceable(file)
        with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.absolute().parent) as scratch:
            archive_path = _build(plan, Path(scratch), compress=compress)
            report = _report(file, archive_path, plan.manifest)
            archive_path.replace(file)
    except OSError as error:
        raise BadOption(
            f"{file} cannot be written: {error.strerror or error}", hint="give a file in a folder that you can write"
        ) from error
    return report


def plan_pack(declared: Iterable[str], packages: Iterable[Path], *, extra: Sequence[str] = ()) -> PackPlan:
    """Plan the contents from the declared requirements of offsite. Requirements of only an extra stay out."""
    needed = [
        requirement
        for requirement in declared
        if not _EXTRA.search(requirement) and _name(requirement) not in BROUGHT_BY_SPARK
    ]
    return PackPlan(requirements=(*needed, *extra), packages=tuple(packages), manifest=own_manifest())


def _name(requirement: str) -> str:
    match = _NAME.match(requirement)
    return match.group().lower() if match else ""


def _check_environment() -> None:
    if find_spec("pex") is None:
        raise BadSparkArchive("packing needs PEX, which is not installed", hint="pip install 'offsite[pack]'")
    if sys.prefix == sys.base_prefix:
        raise BadSparkArchive(
            f"{sys.prefix} is not a virtual environment: the parts that belong to offsite are unknown",
            hint="install offsite into a virtual environment (python3 -m venv), and pack there",
        )


def _declared() -> list[str]:
    try:
        return requires("offsite") or []
    except PackageNotFoundError as error:
        raise BadSparkArchive("this offsite was never installed: its requirements are unknown") from error


def _folders() -> list[Path]:
    specs = [find_spec(name) for name in PACKAGES]
    return [Path(spec.origin).parent for spec in specs if spec is not None and spec.origin is not None]


def _build(plan: PackPlan, scratch: Path, *, compress: bool) -> Path:
    sources, archive_path = scratch / "sources", scratch / "archive"
    for folder in plan.packages:
        shutil.copytree(folder, sources / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    (sources / MANIFEST).write_text(manifest_json(plan.manifest))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PEX_", "PYTHONPATH"))}
    ran = subprocess.run(
        [*_command(plan, sources, archive_path, scratch / "pex"), *([] if compress else ["--no-compress"])],
        env=environment | {"PEX_IGNORE_RCFILES": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if ran.returncode != 0 or not archive_path.exists():
        raise BadSparkArchive(f"PEX could not pack this environment: {ran.stderr.strip()}")
    return archive_path


def _command(plan: PackPlan, sources: Path, archive_path: Path, root: Path) -> list[str]:
    """The command. `--inherit-path=fallback`: Spark's PYTHONPATH comes after the contents of the archive. `--sh-boot`:
    a shell looks for the Python, and reports its absence."""
    command = [*OWN_PYTHON, "-m", "pex", *plan.requirements, "--venv-repository", sys.prefix, "-D", str(sources)]
    boot = ["--inherit-path=fallback", "--sh-boot", "--no-emit-warnings"]
    return [*command, *boot, "--pex-root", str(root), "-o", str(archive_path)]


def _report(file: Path, archive_path: Path, manifest: ExecutorArchiveManifest) -> PackedArchive:
    with archive_path.open("rb") as archive:
        digest = hashlib.file_digest(archive, "sha256").hexdigest()
    return PackedArchive(
        path=str(file),
        file_bytes=archive_path.stat().st_size,
        sha256=digest,
        offsite=manifest.offsite,
        python=manifest.python,
        platform=manifest.platform,
    )
