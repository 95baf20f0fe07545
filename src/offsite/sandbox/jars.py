"""Kafka's jars: fetched from Maven Central, kept in a cache per user, and the command line tools on their class path.

Jars come through Maven where installed, else through the Ivy that PySpark ships. Both clients get the same flat list,
without transitive dependencies, and keep the user's own mirror settings. Neither decides whether a received jar is
right: `versions.verify` does. The cache is complete and verified, or absent: it never holds a half-written folder.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from xml.sax.saxutils import quoteattr

from offsite.model.errors import JarsNotFetched, SandboxFailed
from offsite.sandbox.java import QUICK_START, Java, Jvm, find_java
from offsite.sandbox.versions import KAFKA_VERSION, Jar, kafka_jars, verify

DOWNLOAD_LIMIT_S = 600  # 36 MB on a slow line; past that the line is dead

_HINT = "Maven Central must be reachable; a mirror goes into ~/.m2/settings.xml (with Maven installed)"

# No POM and no checksum file is asked for: the list is complete and holds better checksums (75 s -> 10 s).
_IVY_SETTINGS = """<ivysettings><settings defaultResolver="central"/><resolvers>
<ibiblio name="central" m2compatible="true" usepoms="false" checksums=""/></resolvers></ivysettings>
"""

_CACHE_HINT = "set XDG_CACHE_HOME to a folder that this user can write"
DUMP_LOG_SEGMENTS = "kafka.tools.DumpLogSegments"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER_PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
TOOL_LIMIT_S = 120.0
LAST_LINES = 12


class JarSource(Protocol):
    """One way to get jars. `name`: shown to a person in the progress line."""

    @property
    def name(self) -> str: ...

    def download(self, jars: tuple[Jar, ...], folder: Path) -> None:
        """Put every jar into the folder under its `file_name`. Raises JarsNotFetched; the folder's contents are garbage
        afterwards."""


class Maven:
    """The `mvn` command, with a generated project file."""

    name = "Maven"

    def __init__(self, *, command: Path) -> None:
        self._command = command

    def download(self, jars: tuple[Jar, ...], folder: Path) -> None:
        project = folder / "pom.xml"
        project.write_text(_pom(jars), encoding="utf-8")
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        _run([str(self._command), "--batch-mode", "--quiet", "--file", str(project), *goal], self.name)
        project.unlink()


class Ivy:
    """The Ivy jar inside PySpark's own jars: no tool beyond Java is needed."""

    name = "Ivy"

    def __init__(self, *, java: Java, ivy_jar: Path) -> None:
        self._java = java
        self._ivy_jar = ivy_jar

    def download(self, jars: tuple[Jar, ...], folder: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="offsite-ivy-") as work:
            module, settings = Path(work, "ivy.xml"), Path(work, "settings.xml")
            module.write_text(_ivy_module(jars), encoding="utf-8")
            settings.write_text(_IVY_SETTINGS, encoding="utf-8")
            ivy = [str(self._java.launcher), "-jar", str(self._ivy_jar), "-settings", str(settings), "-cache", work]
            _run([*ivy, "-ivy", str(module), "-retrieve", f"{folder}/[artifact]-[revision].[ext]"], self.name)


def sources(java: Java) -> tuple[JarSource, ...]:
    """Return the ways available on this machine, best first. May be empty."""
    return (*_maven(), *_ivy(java))


def _maven() -> tuple[JarSource, ...]:
    command = shutil.which("mvn")
    return (Maven(command=Path(command)),) if command else ()


def _ivy(java: Java) -> tuple[JarSource, ...]:
    pyspark = importlib.util.find_spec("pyspark")  # finds the folder without the half second of an import
    places = pyspark.submodule_search_locations if pyspark else None
    jars = [jar for place in places or () for jar in Path(place, "jars").glob("ivy-*.jar")]
    return tuple(Ivy(java=java, ivy_jar=jar) for jar in jars[:1])


def _run(command: list[str], name: str) -> None:
    try:
        subprocess.run(
            command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=DOWNLOAD_LIMIT_S
        )
    except subprocess.CalledProcessError as error:
        last_lines = "\n".join((error.stdout + error.stderr).splitlines()[-8:])
        raise JarsNotFetched(f"{name} could not fetch the Kafka jars:\n{last_lines}", hint=_HINT) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JarsNotFetched(f"{name} could not fetch the Kafka jars: {error}", hint=_HINT) from error


def _pom(jars: tuple[Jar, ...]) -> str:
    no_others = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = "".join(
        f"<dependency><groupId>{jar.group}</groupId><artifactId>{jar.artifact}</artifactId>"
        f"<version>{jar.version}</version>{no_others}</dependency>\n"
        for jar in jars
    )
    head = "<groupId>offsite</groupId><artifactId>sandbox</artifactId><version>1</version><packaging>pom</packaging>"
    return (
        f"<project><modelVersion>4.0.0</modelVersion>{head}\n<dependencies>\n{dependencies}</dependencies></project>\n"
    )


def _ivy_module(jars: tuple[Jar, ...]) -> str:
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)} "
        'conf="default->default" transitive="false"/>\n'
        for jar in jars
    )
    head = '<info organisation="offsite" module="sandbox"/><configurations><conf name="default"/></configurations>'
    return f'<ivy-module version="2.0">{head}\n<dependencies>\n{dependencies}</dependencies></ivy-module>\n'


Progress = Callable[[str], None]
"""Takes one line for a person; called seldom."""


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


def run_tool(  # noqa: PLR0913  # keyword-only settings, each with a default
    main_class: str,
    arguments: Sequence[str],
    *,
    flags: Sequence[str] = QUICK_START,
    limit_s: float = TOOL_LIMIT_S,
    progress: Progress = ignore_progress,
    stdin: Path | None = None,
) -> str:
    """Run the tool and return stdout and stderr together. The tool reads the file `stdin`, or nothing.

    Raises SandboxFailed for an exit code other than 0 and after `limit_s`, and the errors of `Sandbox.start` about Java
    and the jars.
    """
    java = find_java()
    jvm = Jvm(java=java, jars=ensure_jars(cache_folder(), sources(java), progress))
    try:
        with (stdin or Path(os.devnull)).open("rb") as read:
            completed = subprocess.run(
                jvm.command(main_class, arguments, flags=flags),
                stdin=read,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=limit_s,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise SandboxFailed(f"{main_class} had not ended after {limit_s:g} s") from error
    if completed.returncode:
        last_lines = "\n".join(completed.stdout.splitlines()[-LAST_LINES:])
        raise SandboxFailed(f"{main_class} ended with code {completed.returncode}:\n{last_lines}")
    return completed.stdout
