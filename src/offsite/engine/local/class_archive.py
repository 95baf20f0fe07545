"""The class data archive of Spark's JVM: classes parsed and verified once per machine instead of at every start.

Java's own AppCDS (JEP 350). The first run without an archive records the loaded classes and writes them at its end, in
the background, under a name of its own; a rename publishes the archive. Java checks an archive against its own version
and the class path, and ignores an archive that does not fit (`-Xshare:auto`). Java does crash on a truncated archive,
so the caller must be ready to start again without (`ClassArchive.discarded`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from offsite.model.clock import Clock

MAX_ARCHIVES = 3
"""Kept per user, 70 MB per archive: one for every environment of a few; the least recently used goes first."""

RECORDING_LIMIT_S = 300
"""An older recording was killed: another run may try. Writing an archive takes about 6 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassArchive:
    """A class data archive at `path`, with the `flags` for java that use or record the archive. When `recording` is
    set, the JVM writes the file `recording` at its end, and the file is renamed to `path` once java has ended well."""

    flags: Sequence[str]
    path: Path
    recording: Path | None

    @property
    def is_used(self) -> bool:
        return bool(self.flags) and self.recording is None

    def discarded(self) -> ClassArchive:
        """Return no archive for this run; a later run records the archive again."""
        self.path.unlink(missing_ok=True)
        return ClassArchive(flags=[], path=self.path, recording=None)


def cache_folder() -> Path:
    """Return the folder `$XDG_CACHE_HOME/offsite/cds`; for a user without a home, a folder that cannot be made."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "offsite" / "cds"
    except RuntimeError:
        return Path(os.devnull, "cds")


def archive_for(folder: Path, java: Path, jars: Sequence[Path], flags: Sequence[str], *, clock: Clock) -> ClassArchive:
    """Return the archive for this java, jars and flags, recorded by this run if missing. An unwritable folder means no
    archive, not an error."""
    path = folder / f"{_fingerprint(java, jars, flags)}.jsa"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists():
            os.utime(path)
            return ClassArchive(flags=[f"-XX:SharedArchiveFile={path}", "-Xshare:auto"], path=path, recording=None)
        recording = _claim(path, clock)
        _prune(folder)
    except OSError:
        recording = None
    if recording is None:
        return ClassArchive(flags=[], path=path, recording=None)
    return ClassArchive(flags=[f"-XX:ArchiveClassesAtExit={recording}"], path=path, recording=recording)


def _fingerprint(java: Path, jars: Sequence[Path], flags: Sequence[str]) -> str:
    """Return the archive's name. Java refuses an archive when a jar's size or time has changed, so both are part of the
    name."""
    digest = hashlib.sha256("\0".join(flags).encode())
    for path in (java, *jars):
        state = path.stat()
        digest.update(f"\0{path}\0{state.st_size}\0{state.st_mtime_ns}".encode())
    return digest.hexdigest()[:32]


def _claim(path: Path, clock: Clock) -> Path | None:
    """Return the name to record under, or None while another process records. The claim is the recording's empty
    file."""
    recording = path.with_suffix(".recording")
    try:
        if clock.now_ms() / 1000 - recording.stat().st_mtime > RECORDING_LIMIT_S:
            recording.unlink(missing_ok=True)
    except FileNotFoundError:
        pass
    try:
        os.close(os.open(recording, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return None
    return recording


def _prune(folder: Path) -> None:
    archives = sorted(folder.glob("*.jsa"), key=lambda archive: archive.stat().st_mtime, reverse=True)
    for archive in archives[MAX_ARCHIVES - 1 :]:
        archive.unlink(missing_ok=True)
