"""The Java runtime by which the sandbox and Spark start JVMs. Finds a runtime; never installs or downloads one.

Also the broker's class data archive: classes loaded and verified by a first broker, kept so that later brokers start
faster. A JVM writes the archive at a clean end (once per user and Java build), into the broker's own folder; the
process that stopped the broker then puts the archive beside the jars. Without a fitting archive a JVM starts the slow
way, so no archive ever fails a start. Source: JEP 350, dynamic CDS archives.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from offsite.model.errors import JavaMissing
from offsite.model.untrusted.java_failure import JAVA_HOME_HINT, find_cause, folder_to_start_in, hint_here
from offsite.sandbox.versions import KAFKA_VERSION, kafka_jars

OLDEST_MAJOR = 17  # required by Kafka 4 brokers and Spark 4
ANSWER_LIMIT_S = 30  # a cold disk may need seconds to start a JVM; beyond, the JVM hangs

LONG_RUN = ("-XX:+UseSerialGC", "-XX:-UsePerfData")
QUICK_START = (*LONG_RUN, "-XX:TieredStopAtLevel=1")  # the quick compiler only

_HINT = f"install a Java {OLDEST_MAJOR}+ runtime (such as openjdk-{OLDEST_MAJOR}-jre-headless), or set JAVA_HOME to one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """One usable runtime: the path of the launcher and the answered major version.

    `build` is a short name for the exact build: the same text for the same vendor and version, else another.
    """

    launcher: Path
    major: int
    build: str


def find_java() -> Java:
    """Return the runtime in `JAVA_HOME` if set, else the first `java` on the path.

    Raises JavaMissing for a missing runtime, a runtime that does not run, or a runtime older than `OLDEST_MAJOR`.
    """
    launcher = _launcher()
    version_text = _version_text(launcher)
    major = _major_of(version_text)
    if major < OLDEST_MAJOR:
        raise JavaMissing(f"{launcher} is Java {major}, offsite needs {OLDEST_MAJOR} or newer", hint=_HINT)
    build = hashlib.sha256(version_text.encode()).hexdigest()[:8]
    return Java(launcher=launcher, major=major, build=build)


def _launcher() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        launcher = Path(home) / "bin" / "java"
        if not launcher.is_file():
            raise JavaMissing(f"there is no Java in JAVA_HOME={home}", hint=JAVA_HOME_HINT)
        return launcher
    path = shutil.which("java")
    if path is None:
        raise JavaMissing("no Java runtime was found", hint=_HINT)
    return Path(path)


def _version_text(launcher: Path) -> str:
    try:
        answer = subprocess.run(
            [launcher, "-version"],
            capture_output=True,
            text=True,
            timeout=ANSWER_LIMIT_S,
            check=True,
            cwd=folder_to_start_in(launcher.parent),
        )
    except subprocess.CalledProcessError as error:
        words = find_cause(f"{error.stderr}{error.stdout}", exit_code=error.returncode)
        raise JavaMissing(f"{launcher} does not run: {words}", hint=hint_here(words)) from error
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaMissing(f"{launcher} does not run: {error}", hint=_HINT) from error
    return answer.stderr + answer.stdout


def _major_of(version_text: str) -> int:
    """`17.0.15` is 17; the old style `1.8.0_402` is 8; an unreadable version counts as too old."""
    match = re.search(r'version "(?:1\.)?(\d+)', version_text)
    return int(match.group(1)) if match else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Jvm:
    """A runtime and the folder of verified jars on its class path, the jars of Kafka `version`."""

    java: Java
    jars: Path
    version: str = KAFKA_VERSION

    def command(self, main_class: str, arguments: Iterable[str], *, flags: Iterable[str] = QUICK_START) -> list[str]:
        return [str(self.java.launcher), *flags, "-cp", self._class_path(), main_class, *arguments]

    def _class_path(self) -> str:
        """Return the class path, jar by jar: Java uses a class data archive only with exactly the class path of its
        creation."""
        return ":".join(str(self.jars / jar.file_name) for jar in kafka_jars(self.version))


def archive_flags(jvm: Jvm, folder: Path, *, leave: bool = True) -> tuple[str, ...]:
    """Return the JVM's flags to use an existing archive, else to leave an archive in the folder at the JVM's end (if
    `leave`)."""
    name = f"broker-{jvm.java.build}.jsa"
    archive = jvm.jars / name
    if not archive.exists() and not leave:
        return ()
    use = f"-XX:SharedArchiveFile={archive}" if archive.exists() else f"-XX:ArchiveClassesAtExit={folder / name}"
    return (use, "-Xlog:disable")  # warnings about classes left out would fill the broker's log


def keep_archives(folder: Path, jars: Path) -> None:
    """Move archives of a cleanly ended broker from the broker's folder to the jars. Of several the last stays."""
    for arrived in _arrived(folder):
        if jars.exists():
            with tempfile.TemporaryDirectory(dir=jars) as work:
                shutil.copyfile(arrived, Path(work, arrived.name)).replace(jars / arrived.name)
        arrived.unlink()


def discard_archives(folder: Path) -> None:
    """Remove archives whose writer may have been killed: a JVM does not notice every torn archive."""
    for arrived in _arrived(folder):
        arrived.unlink()


def _arrived(folder: Path) -> list[Path]:
    return list(folder.glob("broker-*.jsa"))
