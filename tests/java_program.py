"""Programs of tests in Java, each a single file: compiled once in a process, on the class path of some jars."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from offsite.sandbox.java import find_java
from tests.fetched_tools import NoTool


def java_program(source: Path, jars: Iterable[Path], options: Sequence[str]) -> list[str]:
    """The command that runs the class of `source`, without its arguments. `options`: of the JVM. Raises `NoTool` where
    there is no compiler of Java."""
    path = ":".join(map(str, jars))
    folder = _compiled(source, path).name
    return [str(find_java().launcher), *options, "-cp", f"{folder}:{path}", source.stem]


@functools.cache
def _compiled(source: Path, path: str) -> tempfile.TemporaryDirectory[str]:
    """A folder that goes with this process."""
    compiler = find_java().launcher.resolve().with_name("javac")
    if not compiler.exists():
        raise NoTool(f"{compiler} is not there: a JDK is needed")
    folder = tempfile.TemporaryDirectory(prefix=f"offsite-{source.stem.lower()}-classes-")
    command = [str(compiler), "-proc:none", "-cp", path, "-d", folder.name, str(source)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return folder
