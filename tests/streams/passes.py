"""A Kafka Streams application without state (`Passes.java`), of either group protocol and any release."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from offsite.sandbox.jars import cache_folder
from offsite.sandbox.java import LONG_RUN
from offsite.sandbox.versions import Jar, kafka_jars
from tests.fetched_tools import maven_jars
from tests.java_program import java_program

_STREAMS = {
    "4.1.1": "e554318dbc2b07461f714be32bb324744ba993eb7a49f938792beff577d7044b",
    "4.2.0": "f56295d4c539f925ddaa018ec2914ac530bb657f5772fb2ebce93562dc3bb9d1",
    "4.2.2": "91d15d566827f4f7c9eb35bcfc50f2bf454262eb6f0f65c102cbcfdb441cddc6",
    "4.4.0": "6e06548a119adf213121ad2e4fefff6ab4263875b4f761425ace8ea4f5ba04a6",
}
"""SHA-256 of kafka-streams."""
_END_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """The application on a cluster, from topic `orders` to topic `passed`. `application`: its id, and its group."""

    bootstrap: str
    application: str
    orders: str
    passed: str
    version: str

    @contextmanager
    def process(self, protocol: str) -> Iterator[PassesProcess]:
        """The application under way, by group protocol `streams` or `classic`; killed at the end."""
        with tempfile.TemporaryDirectory(prefix="offsite-passes-", ignore_cleanup_errors=True) as folder:
            settings, said = Path(folder, "settings"), Path(folder, "said")
            lines = self._settings(protocol, folder)
            settings.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
            launcher, *arguments = _command(self.version)
            command = [launcher, f"-Djava.io.tmpdir={folder}", *arguments, str(settings), self.orders, self.passed]
            with said.open("w") as output:
                process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder)
            try:
                yield PassesProcess(process=process, output=said)
            finally:
                process.kill()
                process.wait()

    def _settings(self, protocol: str, folder: str) -> dict[str, object]:
        own = {"consumer.session.timeout.ms": 6_000, "main.consumer.internal.leave.group.on.close": "true"}
        return {
            "bootstrap.servers": self.bootstrap,
            "application.id": self.application,
            "group.protocol": protocol,
            "processing.guarantee": "exactly_once_v2",
            "state.dir": folder,
            "commit.interval.ms": 200,
            "producer.transaction.timeout.ms": 10_000,
            **(own if protocol == "classic" else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PassesProcess:
    process: subprocess.Popen[bytes]
    output: Path

    def said(self) -> str:
        return self.output.read_text()

    def is_over(self) -> bool:
        return self.process.poll() is not None

    def stop(self) -> None:
        """End it in good order."""
        self.process.terminate()
        self.process.wait(_END_S)


@functools.cache
def _command(version: str) -> list[str]:
    """Raises `NoTool` where there is no compiler of Java, or a jar cannot be had."""
    jar = Jar(group="org.apache.kafka", artifact="kafka-streams", version=version, sha256=_STREAMS[version])
    streams = maven_jars(f"streams-{version}", (jar,)) / jar.file_name
    kafka = cache_folder(version)
    jars = [streams, *(kafka / kafka_jar.file_name for kafka_jar in kafka_jars(version))]
    return java_program(Path(__file__).with_name("Passes.java"), jars, [*LONG_RUN, "-Xmx256m"])
