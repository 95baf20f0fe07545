"""The figures as JSON to keep and as a table to read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.samples import Samples
from bench.scale import CODECS, RECORD_BYTES, Scale

LATEST = Path(__file__).parent / "results" / "latest.json"

RATIOS = {
    "backup_over_consumer_perf": ("backup_mb_s", "consumer_perf_mb_s"),
    "backup_over_raw_limit": ("backup_mb_s", "raw_limit_mb_s"),
    "backup_over_raw_limit_no_fsync": ("backup_mb_s", "raw_limit_no_fsync_mb_s"),
    "restore_over_producer_perf": ("restore_mb_s", "producer_perf_mb_s"),
    "proof_over_restore": ("proof_mb_s", "restore_mb_s"),
}
TITLES = {
    "backup": "offsite backup, warm session",
    "raw_limit": "one thread: fetch, write, fsync",
    "raw_limit_no_fsync": "one thread: fetch, write",
    "consumer_perf": "ConsumerPerformance, its own figure",
    "restore": "offsite restore, warm session",
    "proof": "its proof, warm session",
    "producer_perf": "ProducerPerformance, whole process",
}
CPU_OF = {"consumer_perf": "consumer_perf_process"}
"""Where the CPU time is not under the name of the rate: it is always that of the whole process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Medians of all figures. `costs`: checksums, scans, exports; `startup`: whole processes."""

    machine: Mapping[str, str | int]
    scale: Scale
    copies: Mapping[str, Samples]
    startup: Samples
    costs: Samples
    worker_peak_rss_bytes: int

    def as_json(self) -> dict[str, Any]:
        return {
            "machine": self.machine,
            "load": asdict(self.scale) | {"record_bytes": RECORD_BYTES},
            "ratios": {name: self._by_codec(*pair) for name, pair in RATIOS.items()},
            "worker_peak_rss_mib": round(self.worker_peak_rss_bytes / 2**20),
            "medians": {codec: self.copies[codec].medians() for codec in CODECS},
            "startup": self.startup.medians(),
            "costs": self.costs.medians(),
            "all": {codec: self.copies[codec].all() for codec in CODECS} | {"startup": self.startup.all()},
        }

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.as_json(), indent=2) + "\n", encoding="utf-8")

    def table(self) -> str:
        load = f"{self.scale.records:,} records of {RECORD_BYTES} bytes, {self.scale.repeats} repeats, medians"
        machine = f"{self.machine['cpu']}, {self.machine['cores']} cores shared with the broker"
        sections = [self._rates(), self._ratios(), self._small_things()]
        return "\n\n".join([f"{load}\n{machine}", *sections])

    def _rates(self) -> str:
        medians = {codec: self.copies[codec].medians() for codec in CODECS}
        lines = [_line("MB/s of payload (CPU seconds per GB)", CODECS)]
        for name, title in TITLES.items():
            cpu = f"{CPU_OF.get(name, name)}_cpu_s_per_gb"
            lines.append(_line(title, [f"{m[f'{name}_mb_s']:.0f} ({m[cpu]:.1f})" for m in medians.values()]))
        return "\n".join(lines)

    def _ratios(self) -> str:
        lines = [_line("ratio", CODECS)]
        for name, pair in RATIOS.items():
            lines.append(_line(name, [f"{ratio:.2f}" for ratio in self._by_codec(*pair).values()]))
        return "\n".join(lines)

    def _small_things(self) -> str:
        figures = {**self.startup.medians(), **self.costs.medians()}
        figures["worker_peak_rss_mib"] = round(self.worker_peak_rss_bytes / 2**20)
        return "\n".join(_line(name, [f"{figure:g}"]) for name, figure in figures.items())

    def _by_codec(self, above: str, below: str) -> dict[str, float]:
        return {codec: self.copies[codec].ratio(above, below) for codec in CODECS}


def _line(title: str, cells: tuple[str, ...] | list[str]) -> str:
    return f"{title:40}" + "".join(f"{cell:>14}" for cell in cells)
