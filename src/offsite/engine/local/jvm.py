"""Spark's JVM in local mode: started directly, without shell scripts, and ended with the driver.

`spark-submit` runs a shell, a JVM that prints a command line, and then the JVM; this module runs the JVM alone. The JVM
listens on loopback only and asks for a secret that never leaves this user's files. Must not be used for a cluster's
master.

A class data archive (Java's AppCDS, JEP 350) holds classes parsed and verified once per machine instead of at every
start. The first run without an archive records the loaded classes and writes them at its end, in the background, under
a name of its own; a rename publishes the archive. Java checks an archive against its own version and the class path,
and ignores an archive that does not fit (`-Xshare:auto`). Java does crash on a truncated archive, so a start with an
archive must be ready to start again without (`ClassArchive.discarded`).
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from offsite.engine.settings import LOOPBACK, split_secrets
from offsite.model.clock import Clock
from offsite.model.errors import JavaMissing, SparkFailed
from offsite.model.untrusted.java_failure import DEFAULT_HINT, JAVA_HOME_HINT, find_cause, folder_to_start_in, hint_here

MAX_ARCHIVES = 3
"""Kept per user, 70 MB per archive: one for every environment of a few; the least recently used goes first."""

RECORDING_LIMIT_S = 300
"""An older recording was killed: another run may try. Writing an archive takes about 6 s."""

LOADED_FIRST = ("spark-core_", "scala-library-", "spark-", "jackson-", "hadoop-client-", "netty-", "py4j-")
"""Jars with most of the classes that a job loads: Java searches jars in sequence."""
NEVER_LOADED = (
    "HikariCP", "arpack", "arrow-", "breeze", "connect-repl", "curator-", "datanucleus", "datasketches",
    "derby", "hive-", "icu4j", "jersey-", "jline", "kubernetes-", "orc-", "parquet-", "rocksdbjni",
    "scala-compiler", "scala-reflect", "spark-catalyst", "spark-connect", "spark-graphx", "spark-hive",
    "spark-kubernetes", "spark-mllib", "spark-pipelines", "spark-repl", "spark-sql", "spark-streaming",
    "spark-yarn", "spire", "tink", "vertx-", "volcano-", "zookeeper", "log4j-slf4j2-impl",
)  # fmt: skip
"""Jars that a scheduler of Python tasks never opens; a jar on the class path costs time at every start. Without the
last one slf4j finds no logger: log4j alone takes 0.2 s to start, and errors arrive as exceptions anyway."""
INSTALL_HINT = "install a Java 17+ runtime (Debian: openjdk-17-jre-headless) and put it on PATH or set JAVA_HOME"
START_LIMIT_S = 120
"""A JVM still missing by then never comes: ten times the start time on a busy two-core machine."""
POLL_S = 0.005
ENDING_S = 0.5
"""How long an unresponsive JVM may take to end."""
RECORDING_NICENESS = 10
"""Writing the class archive takes 5 s of one core at the end of the first run, perhaps while the next command runs."""
LIGHT_FLAGS = (
    "-XX:TieredStopAtLevel=1",  # the JVM only schedules: the optimising compiler never pays off
    "-XX:+UseSerialGC",
    "-Xmn32m",  # a third of the heap by default: touched whole before it is collected for the first time
    "-XX:-UsePerfData",
    "-Xss512k",
    "-Dslf4j.internal.verbosity=ERROR",
)
_OPENED_PACKAGES = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs",
    "sun.security.action", "sun.util.calendar",
)  # fmt: skip
"""Packages opened by Spark's own launcher (JavaModuleOptions)."""
_OWN_ADDRESS = {"SPARK_LOCAL_IP": LOOPBACK}
"""Without the variable Spark resolves this host's name first, and ends where the name has no address."""
_CONNECTION = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_MAIN_CLASS = "org.apache.spark.api.python.PythonGatewayServer"
_RUN_THEN_PUBLISH = """recording=$1 archive=$2; shift 2; "$@"; ended=$?
[ $ended = 0 ] && mv -f "$recording" "$archive" || rm -f "$recording"; exit $ended"""
"""Waits for java and publishes the written archive, even after the driver has ended. Ends as java did."""


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


def java_binary() -> Path:
    """Return `$JAVA_HOME/bin/java`, else `java` on PATH. Raises `JavaMissing`."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if path is None:
        raise JavaMissing(
            "Spark needs Java, but no Java was found" + (f" in JAVA_HOME={home}" if home else ""),
            hint=JAVA_HOME_HINT if home else INSTALL_HINT,
        )
    return Path(path).resolve()


def spark_home() -> Path:
    """Return the folder of the installed pyspark without an import, which would take half a second."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SparkFailed("pyspark is not installed", hint="pip install --force-reinstall offsite")
    return Path(spec.origin).parent


def scheduler_jars(home: Path) -> list[Path]:
    """Return the jars that Spark needs to schedule Python tasks in one JVM, the busiest first. Raises `SparkFailed`.

    Every jar on the class path costs time at every start.
    """
    jars = [jar for jar in (home / "jars").glob("*.jar") if not jar.name.startswith(NEVER_LOADED)]
    if not jars:
        raise SparkFailed(f"no Spark jars in {home}/jars", hint="pip install --force-reinstall pyspark")
    return sorted(jars, key=lambda jar: (_rank(jar.name), jar.name))


def _rank(name: str) -> int:
    return next((rank for rank, prefix in enumerate(LOADED_FIRST) if name.startswith(prefix)), len(LOADED_FIRST))


class LocalJvm:
    """One JVM with a Py4J gateway. The constructor starts the JVM and returns at once. The JVM has `settings` except
    secrets, because any user of the machine can read the command line: secrets go through `join_jvm`. Raises
    `JavaMissing`, and the errors of `split_secrets`."""

    def __init__(
        self, folder: Path, settings: Mapping[str, str], *, environment: Mapping[str, str], clock: Clock
    ) -> None:
        self._folder = folder
        self._connection = folder / "gateway"
        self._log = folder / "spark.log"
        self._environment = environment
        self._clock = clock
        java, jars = java_binary(), scheduler_jars(spark_home())
        flags = [*LIGHT_FLAGS, f"-Xmx{settings['spark.driver.memory']}", *_opened()]
        self._archive = archive_for(cache_folder(), java, jars, flags, clock=clock)
        self._java = [str(java), *flags, "-cp", os.pathsep.join(map(str, jars))]
        self._settings = [f"-D{name}={value}" for name, value in split_secrets(settings)[0].items()]
        self._abandoned = False
        self._process = self._spawn()

    def abandon(self) -> None:
        """Give up the start: `gateway` raises at once, and `close` records no classes of so short a life."""
        self._abandoned = True

    def gateway(self) -> tuple[int, str]:
        """Return port on loopback and secret, once the JVM listens. Raises `SparkFailed`, with the end of the JVM's
        log."""
        deadline_s = self._clock.monotonic_s() + START_LIMIT_S
        while not self._connection.exists():
            if self._abandoned:
                raise SparkFailed("the start of Spark was aborted", hint="run again")
            if self._process.poll() is not None:
                self._restart_without_archive()
            if self._clock.monotonic_s() > deadline_s:
                raise SparkFailed(
                    f"Spark's JVM did not start within {START_LIMIT_S} s",
                    hint=DEFAULT_HINT,
                )
            self._clock.sleep(POLL_S)
        raw = self._connection.read_bytes()  # Spark renames the file into place: never half written
        port, secret_bytes = struct.unpack_from(">ii", raw)
        return port, raw[8 : 8 + secret_bytes].decode()

    def exit_reason(self) -> str:
        """Return why the JVM ended; empty while running."""
        try:
            exit_code = self._process.wait(timeout=ENDING_S)
        except subprocess.TimeoutExpired:
            return ""
        return find_cause(self._log.read_text(errors="replace"), exit_code=exit_code)

    def close(self) -> None:
        """Kill the JVM; or, with classes to record, let the JVM end by itself in the background. May be called
        twice."""
        atexit.unregister(self._end_at_exit)
        if self._process.stdin is None or self._process.stdin.closed:
            return
        if self._archive.recording is not None and not self._abandoned and self._process.poll() is None:
            os.setpriority(os.PRIO_PGRP, self._process.pid, RECORDING_NICENESS)
            self._process.stdin.close()
            return
        with self._process:  # closes the pipe and waits
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
        if self._archive.recording is not None:
            self._archive.recording.unlink(missing_ok=True)

    def _end_at_exit(self, owner: int) -> None:
        """Kill a JVM that nobody closed, before its folder goes: a JVM that finds no folder at its start waits for
        ever. Forks of the owner do nothing."""
        if os.getpid() == owner:
            self.abandon()
            self.close()

    def _spawn(self) -> subprocess.Popen[bytes]:
        command = [*self._java, *self._archive.flags, *self._settings, *_contained(self._folder), _MAIN_CLASS]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                _recorded(command, self._archive),
                stdin=subprocess.PIPE,  # never written to: the JVM exits at the end of stdin, however the driver died
                stdout=log,
                stderr=log,
                env={**inherited, **_OWN_ADDRESS, _CONNECTION: str(self._connection), **self._environment},
                cwd=folder_to_start_in(self._folder),
                process_group=0,  # Ctrl-C in the terminal is for the driver, and the driver ends the rest
            )
        atexit.register(self._end_at_exit, os.getpid())
        return process

    def _restart_without_archive(self) -> None:
        """Start once more, without the archive: Java crashes on a truncated archive (a full disk, a power cut). Raises
        `SparkFailed` or `JavaMissing` when no archive was used."""
        if not self._archive.is_used:
            written = self._log.read_text(errors="replace")
            if "UnsupportedClassVersionError" in written:
                raise JavaMissing(f"{self._java[0]} is too old for Spark", hint=INSTALL_HINT)
            words = find_cause(written, exit_code=self._process.returncode)
            raise SparkFailed(f"Spark's JVM ended during its start: {words}", hint=hint_here(words))
        self.close()
        self._archive = self._archive.discarded()
        self._process = self._spawn()


def name_of_nameless() -> str:
    """Return a name for a user without a name in the system, else an empty text. In a container any number may be a
    user, and Hadoop's classes start for nobody without a name."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return str(os.getuid())
    return ""


def _contained(folder: Path) -> list[str]:
    """Flags that keep all of Java's files in `folder`."""
    return [f"-Djava.io.tmpdir={folder}", f"-XX:ErrorFile={folder}/crash.log", "-XX:-CreateCoredumpOnCrash"]


def _opened() -> list[str]:
    return [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED_PACKAGES]


def _recorded(command: list[str], archive: ClassArchive) -> list[str]:
    if archive.recording is None:
        return command
    return ["/bin/sh", "-c", _RUN_THEN_PUBLISH, "sh", str(archive.recording), str(archive.path), *command]
