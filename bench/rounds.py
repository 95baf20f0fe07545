"""The interleaved rounds: in each one every way of copying goes once over every topic."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench import kafka_tools
from bench.cluster import Cluster
from bench.copies import Copies
from bench.memory import settle
from bench.processes import own_cpu_s
from bench.raw_limit import copy_raw
from bench.samples import Samples
from bench.scale import CODECS, Scale

MB, GB = 1e6, 1e9
RESTORED, PRODUCED = "restored", "produced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """`samples` by codec; topics are named like their codec and hold `scale.records` each."""

    cluster: Cluster
    copies: Copies
    scale: Scale
    payload: Path
    folder: Path
    samples: Mapping[str, Samples] = field(default_factory=lambda: {codec: Samples() for codec in CODECS})

    def warm_up(self) -> None:
        """Spark's workers, the broker's compiler and its page cache. Nothing is measured."""
        for codec in CODECS:
            copy_raw(self.cluster.kafka, self.cluster.ends(codec), self._file(), durable=False)
            self._file().unlink()
            self.copies.back_up(codec, records=self.scale.records)
            self.copies.restore(codec, RESTORED, records=self.scale.records)
            self.copies.prove(codec, records=self.scale.records)
            self.copies.forget()
            self.cluster.delete([RESTORED])

    def run(self) -> None:
        for codec in CODECS:
            self._back_up(codec)
            self._consume(codec)
            self._limit(codec, "raw_limit", durable=True)
            self._limit(codec, "raw_limit_no_fsync", durable=False)
            self._restore(codec)
            self._produce(codec)

    def _back_up(self, codec: str) -> None:
        self._settle()
        run = self.copies.back_up(codec, records=self.scale.records)
        self._add(codec, "backup", elapsed_s=run.elapsed_s, cpu_s=run.cpu_s)
        self.samples[codec].add(backup_plan_ms=1000 * run.plan_s)

    def _consume(self, codec: str) -> None:
        self._settle()
        run = kafka_tools.consume(self.cluster.bootstrap, codec, records=self.scale.records)
        self._add(codec, "consumer_perf_process", elapsed_s=run.elapsed_s, cpu_s=run.cpu_s)
        self.samples[codec].add(consumer_perf_mb_s=run.claimed_mb_s)

    def _limit(self, codec: str, name: str, *, durable: bool) -> None:
        ends = self.cluster.ends(codec)
        self._settle()
        cpu_s, start_s = self._cpu_s(), time.perf_counter()
        copy_raw(self.cluster.kafka, ends, self._file(), durable=durable)
        self._add(codec, name, elapsed_s=time.perf_counter() - start_s, cpu_s=self._cpu_s() - cpu_s)
        self._file().unlink()

    def _restore(self, codec: str) -> None:
        self._settle()
        run = self.copies.restore(codec, RESTORED, records=self.scale.records)
        self._add(codec, "restore", elapsed_s=run.elapsed_s, cpu_s=run.cpu_s)
        proof = self.copies.prove(codec, records=self.scale.records)
        self._add(codec, "proof", elapsed_s=proof.elapsed_s, cpu_s=proof.cpu_s)
        self.copies.forget()
        self.cluster.delete([RESTORED])

    def _produce(self, codec: str) -> None:
        self.cluster.create(PRODUCED)
        self._settle()
        run = kafka_tools.produce(
            self.cluster.bootstrap, PRODUCED, records=self.scale.records, payload=self.payload, codec=codec
        )
        self._add(codec, "producer_perf", elapsed_s=run.elapsed_s, cpu_s=run.cpu_s)
        self.samples[codec].add(producer_perf_claimed_mb_s=run.claimed_mb_s)
        self.cluster.delete([PRODUCED])

    def _add(self, codec: str, name: str, *, elapsed_s: float, cpu_s: float) -> None:
        size_bytes = self.scale.payload_bytes
        self.samples[codec].add(
            **{f"{name}_mb_s": size_bytes / MB / elapsed_s, f"{name}_cpu_s_per_gb": cpu_s / (size_bytes / GB)}
        )

    def _settle(self) -> None:
        self.cluster.rest()
        settle(self.scale.payload_bytes)

    def _cpu_s(self) -> float:
        return own_cpu_s(without={self.cluster.broker_pid})

    def _file(self) -> Path:
        return self.folder / "raw.log"
