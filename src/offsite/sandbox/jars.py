"""The per-user cache of Kafka's jars: complete and verified, or absent. Never holds a half-written folder."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from offsite.model.errors import JarsNotFetched
from offsite.sandbox.jar_source import JarSource
from offsite.sandbox.versions import KAFKA_VERSION, Jar, kafka_jars, verify

Progress = Callable[[str], None]
"""Takes one line for a person; called seldom."""

_CACHE_HINT = "set XDG_CACHE_HOME to a folder that this user can write"


def ignore_progress(_line: str) -> None:
    """The progress callback for callers without a progress display."""


def cache_folder(version: str = KAFKA_VERSION) -> Path:
    """Return the folder of the jars of the Kafka version: below `XDG_CACHE_HOME`, else below `~/.cache`."""
    try:
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:  # this user has no home
        raise JarsNotFetched("there is no home folder to keep Kafka's jars in", hint=_CACHE_HINT) from error
    return Path(caches, "offsite", "jars", f"kafka-{version}")


def ensure_jars(
    folder: Path, sources: tuple[JarSource, ...], progress: Progress, *, version: str = KAFKA_VERSION
) -> Path:
    """Return the folder with every jar of the Kafka version, every jar with its recorded hash; fetch the jars if
    missing.

    Of two processes at once, one fetches and the other waits. A crash leaves a temporary folder beside the cache; the
    next fetch removes the folder. Raises DamagedJar for an existing but wrong folder, JarsNotFetched when no source
    delivers.
    """
    jars = kafka_jars(version)
    try:
        if not folder.exists():  # all jars come at once; even an unwritable home may have them
            with _alone(folder):
                if not folder.exists():
                    _fetch(folder, jars, sources, progress)
    except OSError as error:
        problem = f"Kafka's jars cannot be put into {folder}: {os.strerror(error.errno or 0)}"
        raise JarsNotFetched(problem, hint=_CACHE_HINT) from error
    verify(folder, jars)
    return folder


def _fetch(folder: Path, jars: tuple[Jar, ...], sources: tuple[JarSource, ...], progress: Progress) -> None:
    for leftover in folder.parent.glob(f".{folder.name}-*"):
        shutil.rmtree(leftover)
    failure = JarsNotFetched(
        "neither Maven nor PySpark's Ivy is installed", hint="install offsite with its dependencies"
    )
    for source in sources:
        progress(f"fetching {folder.name} ({len(jars)} jars, about 40 MB) with {source.name} into {folder}")
        try:
            return _fetch_from(source, jars, folder)
        except JarsNotFetched as error:
            failure = error
            progress(error.message)
    raise failure


def _fetch_from(source: JarSource, jars: tuple[Jar, ...], folder: Path) -> None:
    arriving = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        source.download(jars, arriving)
        verify(arriving, jars)
        arriving.rename(folder)
    finally:
        shutil.rmtree(arriving, ignore_errors=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the cache's lock. The lock file stays: a removed file would let two processes hold different files."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
