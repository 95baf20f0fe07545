"""`python -m bench.peers FILE`: other tools beside offsite, each as a whole process, in the same interleaved rounds.

The file names what to run, in TOML:

    [[peer]]
    name = "other"
    prepare = "mkdir -p {folder}"
    backup = "other-tool backup --bootstrap {bootstrap} --topic {topic} --to {folder}"
    restore = "other-tool restore --bootstrap {bootstrap} --from {folder} --topic {topic} --into {target}"
    clean = "rm -rf {folder}"

Each command is split as a shell splits it, and run without one. `prepare` and `clean`, before and after each turn, are
not measured and may be left out; without `restore` only backups are compared. A restore counts only if its target holds
as many offsets as the source. Each round goes through all tools in turn, another one first each time; ratios are taken
within a round. The topics are those of the bench: 4 partitions of values of 200 bytes, named by their codec.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench import kafka_tools
from bench.cluster import Cluster, running_cluster
from bench.memory import settle
from bench.payload import write_payload
from bench.samples import Samples
from bench.scale import CODECS, FULL, QUICK, Scale

OFFSITE = "offsite"
LIMIT_S = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One tool. Its commands have places in braces: bootstrap, topic, folder, target."""

    name: str
    backup: str
    prepare: str = ""
    restore: str = ""
    clean: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """One topic, and all tools that copy it."""

    cluster: Cluster
    scale: Scale
    folder: Path

    def run(self, peers: Sequence[Peer], topic: str, *, rounds: int) -> Samples:
        """Seconds, as `<name>_backup_s` and `<name>_restore_s`."""
        samples = Samples()
        for number in range(rounds):
            first = number % len(peers)
            for peer in (*peers[first:], *peers[:first]):
                samples.add(**self._turn(peer, topic))
        return samples

    def _turn(self, peer: Peer, topic: str) -> dict[str, float]:
        target = f"{topic}-back"
        places = {
            "bootstrap": self.cluster.bootstrap,
            "topic": topic,
            "folder": str(self.folder / peer.name),
            "target": target,
        }
        if peer.prepare:
            _run(peer.prepare, places)
        figures = {f"{peer.name}_backup_s": self._timed(peer.backup, places)}
        if peer.restore:
            figures[f"{peer.name}_restore_s"] = self._timed(peer.restore, places)
            wanted, held = (sum(self.cluster.ends(name).values()) for name in (topic, target))
            if held != wanted:
                raise SystemExit(f"{peer.name} restored {held} of {wanted} offsets")
            self.cluster.delete([target])
        if peer.clean:
            _run(peer.clean, places)
        shutil.rmtree(self.folder / peer.name, ignore_errors=True)
        return figures

    def _timed(self, command: str, places: Mapping[str, str]) -> float:
        self.cluster.rest()
        settle(self.scale.payload_bytes)
        start_s = time.perf_counter()
        _run(command, places)
        return time.perf_counter() - start_s


def main() -> None:
    options = _options()
    peers = [_own(), *read_peers(options.file.read_text(encoding="utf-8"))]
    scale = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="offsite-peers-", dir=options.dir) as name:
        folder = Path(name)
        payload = write_payload(folder / "payload")
        with running_cluster(folder / "kafka") as cluster:
            race = Race(cluster=cluster, scale=scale, folder=folder)
            for topic in options.topics:
                cluster.create(topic)
                kafka_tools.produce(cluster.bootstrap, topic, records=scale.records, payload=payload, codec=topic)
                print(told(topic, peers, race.run(peers, topic, rounds=options.rounds)), flush=True)


def read_peers(text: str) -> list[Peer]:
    """The peers that a file names. Raises `SystemExit` with what is wrong with it."""
    try:
        found = [Peer(**each) for each in tomllib.loads(text).get("peer", [])]
    except (tomllib.TOMLDecodeError, TypeError, AttributeError) as error:
        raise SystemExit(f"cannot read the peers: {error}") from error
    names = [each.name for each in found]
    if not found or len({*names, OFFSITE}) != len(names) + 1:
        raise SystemExit("name at least one [[peer]], each once, and none offsite")
    return found


def told(topic: str, peers: Sequence[Peer], samples: Samples) -> str:
    """Medians in seconds, and how many times as long as offsite each takes, in the same rounds."""
    lines = [f"{topic}: medians of whole processes, and how many times as long as offsite"]
    for what in ("backup", "restore"):
        series = samples.all()
        for peer in peers:
            if (name := f"{peer.name}_{what}_s") in series:
                ratio = samples.ratio(name, f"{OFFSITE}_{what}_s")
                lines.append(f"  {what:8} {peer.name:24} {median(series[name]):8.1f} s {ratio:6.2f} x")
    return "\n".join(lines)


def _own() -> Peer:
    """Offsite as a person runs it, with the proof that its restore ends with."""
    command = shlex.quote(str(Path(sys.executable).with_name("offsite")))
    place = "--repo {folder} --bootstrap {bootstrap}"
    return Peer(
        name=OFFSITE,
        prepare=f"{command} init {{folder}}",
        backup=f"{command} backup run {place} --backup race --topics {{topic}}",
        restore=f"{command} restore run {place} --backup race --topics {{topic}} --rename {{topic}}={{target}} --yes",
    )


def _run(command: str, places: Mapping[str, str]) -> None:
    arguments = [part.format_map(places) for part in shlex.split(command)]
    done = subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode:
        raise SystemExit(f"{shlex.join(arguments)} ended with {done.returncode}:\n{done.stderr[-2000:]}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="what to run, in TOML")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--topics", nargs="+", choices=CODECS, default=["lz4"], help="by codec")
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    parser.add_argument("--dir", type=Path, help="where to work")
    return parser.parse_args()


if __name__ == "__main__":
    main()
