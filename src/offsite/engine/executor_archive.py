"""The archive of offsite and its dependencies, for executors without offsite: made by `offsite spark pack`, with a
manifest, and the Spark settings of a run with an archive.

The archive is a PEX file: one file that runs as a Python with offsite, by a python3 of the executor. PEX packs the
installed libraries, and asks no index. offsite itself is added as files: for an editable install PEX would build a
wheel, which takes a network. pyspark is not in the archive, because Spark brings its own. The manifest only guards
against slips; the version in every task decides.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from offsite.engine.settings import WORKER_ENVIRONMENT, executor_variables
from offsite.model.errors import BadOption, BadSparkArchive
from offsite.model.machine import OWN_PYTHON
from offsite.model.version import __version__
from offsite.stores.plain_files import check_replaceable

MANIFEST = "offsite-archive.json"
FORMAT = 1

UNPACKED = "./offsite-environment"
"""Where an executor unpacks the archive: in the executor's working directory, deleted with it, whether or not a home is
writable."""

MAX_MANIFEST_BYTES = 64 << 10

_SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")  # spark.files splits at commas, and renames by the part after #
_FILES = "spark.files"
_SHA256 = re.compile(r"sha256=[0-9a-f]{64}")
_CHECKED_PYTHON = Path(__file__).parent / "local" / "checked-python.sh"
_PACK_AGAIN = "pack it again with this offsite: offsite spark pack"

PACKAGES = ("offsite", "offsite_participant", "pyspark_offsite")
BROUGHT_BY_SPARK = ("pyspark", "py4j")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"\bextra\s*==")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorArchiveManifest:
    """An archive's description of itself."""

    format: int
    offsite: str
    """Version."""
    python: str
    """Major and minor version: libraries in machine code fit no other."""
    platform: str
    """System, machine and C library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSettings:
    settings: Mapping[str, str]
    """Spark settings without secrets."""
    python: str
    """The executors' Python, as executors see it: the value for `SparkContext.pythonExec`."""


NO_ARCHIVE = ArchiveSettings(settings={}, python="")


def with_archive(chosen: Mapping[str, str], archive: ArchiveSettings) -> Mapping[str, str]:
    """Return the `chosen` settings together with the archive's settings. A chosen variable of executors wins. Files of
    both are shipped."""
    files = ",".join(filter(None, (chosen.get(_FILES), archive.settings.get(_FILES))))
    return {**archive.settings, **chosen, **({_FILES: files} if files else {})}


def own_manifest() -> ExecutorArchiveManifest:
    """Return the manifest of an archive made by this process."""
    libc = platform.libc_ver()[0]
    return ExecutorArchiveManifest(
        format=FORMAT,
        offsite=__version__,
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
        platform="-".join(filter(None, (sysconfig.get_platform(), libc))),
    )


def manifest_json(manifest: ExecutorArchiveManifest) -> str:
    return json.dumps(asdict(manifest), indent=2, sort_keys=True) + "\n"


def archive_settings(archive: str) -> ArchiveSettings:
    """Return the Spark settings by which executors run their Python in `archive`: a file of this machine, or a URL.

    A file is inspected. Raises `BadSparkArchive` for another kind of file, or an archive of another offsite or Python.
    A URL is read by the executors (`hdfs://`, `s3a://`, `https://`; `local://` is a path on every executor). Executors
    run the file only if its SHA-256 matches the end of the URL, because other users may write there too. Raises
    `BadOption` for a text without file or hash.
    """
    archive, _, fragment = archive.partition("#")
    url = urlsplit(archive)
    if fragment and url.scheme in {"", "file", "local"}:
        raise BadOption(f"{archive} has a part after #, which is allowed only in a URL", hint="remove that part")
    if url.scheme in {"", "file"}:
        file = Path(url2pathname(url.path) if url.scheme else archive).absolute()
        _check(file, read_manifest(file), own_manifest())
        return _shipped(file.as_uri(), file.name)
    if url.scheme == "local":
        return ArchiveSettings(settings=executor_environment(), python=url.path)
    shipped = _shipped(archive, url.path.rpartition("/")[2])
    if not _SHA256.fullmatch(fragment):
        raise BadOption(
            f"executors would run the Spark archive at {archive} without a check of its contents",
            hint="add the SHA-256 that offsite spark pack printed, as #sha256=HEX",
        )
    named = executor_variables(
        {"OFFSITE_ARCHIVE": shipped.python, "OFFSITE_ARCHIVE_SHA256": fragment.removeprefix("sha256=")}
    )
    files = f"{shipped.settings[_FILES]},{_CHECKED_PYTHON.as_uri()}"
    return ArchiveSettings(settings={**shipped.settings, **named, _FILES: files}, python=f"./{_CHECKED_PYTHON.name}")


def read_manifest(file: Path) -> ExecutorArchiveManifest:
    """Read the manifest. Raises `BadSparkArchive` for anything but an archive of offsite."""
    try:
        with zipfile.ZipFile(file) as archive, archive.open(MANIFEST) as manifest:
            return ExecutorArchiveManifest(**json.loads(manifest.read(MAX_MANIFEST_BYTES)))
    except OSError as error:
        raise BadSparkArchive(
            f"the Spark archive {file} cannot be read: {error.strerror or error}",
            hint="give the file that offsite spark pack wrote",
        ) from error
    except Exception as error:  # any exception of zipfile, its decompressors and json
        raise BadSparkArchive(
            f"{file} is not an archive for executors", hint="create one: offsite spark pack"
        ) from error


def _check(file: Path, manifest: ExecutorArchiveManifest, expected: ExecutorArchiveManifest) -> None:
    if manifest.format != expected.format:
        raise BadSparkArchive(
            f"{file} is an archive of format {manifest.format}, not {expected.format}", hint=_PACK_AGAIN
        )
    if manifest.offsite != expected.offsite:
        raise BadSparkArchive(
            f"{file} is an archive of offsite {manifest.offsite}, but this is offsite {expected.offsite}",
            hint=_PACK_AGAIN,
        )
    if manifest.python != expected.python:
        raise BadSparkArchive(
            f"{file} is an archive for Python {manifest.python}, but this is Python {expected.python}",
            hint="executors need the same Python version as the driver: use one version for both, or pack again",
        )


def _shipped(url: str, name: str) -> ArchiveSettings:
    if not _SAFE_NAME.fullmatch(name) or "#" in url or "," in url:
        raise BadOption(
            f"the Spark archive {url} cannot be sent to executors under this name",
            hint="give the file a name of letters, digits, dots, dashes and underscores",
        )
    return ArchiveSettings(settings={_FILES: url} | executor_environment(), python=f"./{name}")


def executor_environment() -> dict[str, str]:
    """Return settings for the environment that an archive needs on executors. An executor without an archive ignores
    them."""
    return executor_variables({**WORKER_ENVIRONMENT, "PEX_ROOT": UNPACKED})


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
