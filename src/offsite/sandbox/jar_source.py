"""Fetch jars from Maven Central: through Maven where installed, else through the Ivy that PySpark ships.

Both clients get the same flat list, without transitive dependencies, and keep the user's own mirror settings. The
module never decides whether a received jar is right: `versions.verify` does.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Protocol
from xml.sax.saxutils import quoteattr

from offsite.model.errors import JarsNotFetched
from offsite.sandbox.java import Java
from offsite.sandbox.versions import Jar

DOWNLOAD_LIMIT_S = 600  # 36 MB on a slow line; past that the line is dead

_HINT = "Maven Central must be reachable; a mirror goes into ~/.m2/settings.xml (with Maven installed)"

# No POM and no checksum file is asked for: the list is complete and holds better checksums (75 s -> 10 s).
_IVY_SETTINGS = """<ivysettings><settings defaultResolver="central"/><resolvers>
<ibiblio name="central" m2compatible="true" usepoms="false" checksums=""/></resolvers></ivysettings>
"""


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
