"""What a checkpoint costs producers, and how long it takes: writes at a fixed rate, a run that follows, checkpoints.

`python -m bench.checkpoint [--mb-per-s N] [--seconds N]`: producers write for so long while a backup follows, with a
checkpoint every ten seconds. Prints the rate that they reached with a checkpoint under way and without, and the seconds
from the moment at which every partition had its end to the commit. Two minutes by default.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer

from bench.cluster import Cluster, running_cluster
from bench.scale import PARTITIONS

TOPIC = "busy"
VALUE = bytes(range(256)) * 4
EVERY = "10s"
TICK_S = 0.1
_COMMAND = str(Path(sys.executable).with_name("offsite"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb-per-s", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=90)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="offsite-bench-") as folder, running_cluster(Path(folder)) as cluster:
        cluster.create(TOPIC)
        repository = Path(folder) / "repository"
        _offsite("init", str(repository))
        source = ["--repo", str(repository), "--backup", "b", "--bootstrap", cluster.bootstrap]
        _offsite("backup", "run", *source, "--topics", TOPIC)
        follower = _start("backup", "run", *source, "--follow", "--interval", "1s", "--every", EVERY)
        try:
            rates = _write(cluster, options.mb_per_s, options.seconds)
        finally:
            follower.terminate()
            follower.wait()
        listed = json.loads(_offsite("checkpoint", "list", *source[:4], "--limit", "1000", "-o", "json"))
    _report(rates, listed["checkpoints"], options.mb_per_s)


def _write(cluster: Cluster, mb_per_s: float, seconds: float) -> dict[float, float]:
    """Acknowledged MB/s of each tenth of a second, by the time (epoch s) at which it began."""
    acked = 0

    def take(error: object, _message: object) -> None:
        nonlocal acked
        if error is not None:
            raise RuntimeError(error)
        acked += len(VALUE)

    settings = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 20, "batch.size": 1 << 20}
    producer = Producer({**settings, "on_delivery": take})
    rates: dict[float, float] = {}
    began_s, sent = time.time(), 0
    while (now_s := time.time()) - began_s < seconds:
        before = acked
        while sent < (time.time() - began_s + TICK_S) * mb_per_s * 1e6:
            try:
                producer.produce(TOPIC, VALUE, partition=(sent // len(VALUE)) % PARTITIONS)
            except BufferError:
                break
            sent += len(VALUE)
        producer.poll(0)
        while (left_s := now_s + TICK_S - time.time()) > 0:
            producer.poll(left_s)
        rates[now_s] = (acked - before) / (time.time() - now_s) / 1e6
    producer.flush()
    return rates


def _report(rates: dict[float, float], checkpoints: list[dict[str, float]], wanted: float) -> None:
    spans = [
        (each["taken_at_ms"] / 1000, each["committed_at_ms"] / 1000)
        for each in checkpoints
        if each["committed_at_ms"] > 0 and each["taken_at_ms"] / 1000 > min(rates)
    ]
    inside = [rate for at, rate in rates.items() if any(start - TICK_S < at < end for start, end in spans)]
    outside = [rate for at, rate in rates.items() if not any(start - 1 < at < end + 1 for start, end in spans)]
    took = sorted(end - start for start, end in spans)
    with_one, without = statistics.mean(inside), statistics.mean(outside)
    print(f"{len(spans)} checkpoints; writes of {wanted:g} MB/s asked for")
    print(f"{with_one:.1f} MB/s with a checkpoint under way, {without:.1f} without: {with_one / without:.3f}")
    print(f"from the last end to the commit: median {statistics.median(took):.2f} s, longest {took[-1]:.2f} s")
    print("each, in its order:", ", ".join(f"{end - start:.2f}" for start, end in sorted(spans)))


def _offsite(*arguments: str) -> str:
    return subprocess.run([_COMMAND, *arguments], check=True, capture_output=True, text=True).stdout


def _start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([_COMMAND, *arguments], stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
