"""The broker's class data archive: what a first broker loaded and verified, kept so that later ones start faster.

A JVM writes it when it ends cleanly (once per user and Java build), into the broker's own folder; whoever stopped the
broker then puts it beside the jars. Without one, or with one that does not fit, a JVM starts the slow way, so nothing
here ever fails a start. Source: JEP 350, dynamic CDS archives.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from offsite.sandbox.java import Jvm


def archive_flags(jvm: Jvm, folder: Path, *, leave: bool = True) -> tuple[str, ...]:
    """The JVM's flags to use the archive if there is one, else to leave one in the folder at its end (if `leave`)."""
    name = f"broker-{jvm.java.build}.jsa"
    kept = jvm.jars / name
    if not kept.exists() and not leave:
        return ()
    use = f"-XX:SharedArchiveFile={kept}" if kept.exists() else f"-XX:ArchiveClassesAtExit={folder / name}"
    return (use, "-Xlog:disable")  # its warnings about classes left out would fill the broker's log


def keep_archives(folder: Path, jars: Path) -> None:
    """Move archives that a cleanly ended broker left in its folder beside the jars. Of several the last one stays."""
    for arrived in _arrived(folder):
        if jars.exists():
            with tempfile.TemporaryDirectory(dir=jars) as work:
                shutil.copyfile(arrived, Path(work, arrived.name)).replace(jars / arrived.name)
        arrived.unlink()


def discard_archives(folder: Path) -> None:
    """Remove archives whose writer may have been killed in the middle: a JVM does not notice every torn one."""
    for arrived in _arrived(folder):
        arrived.unlink()


def _arrived(folder: Path) -> list[Path]:
    return list(folder.glob("broker-*.jsa"))
