"""What small things take as a user meets them: whole processes, from the shell's point of view."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.cluster import Cluster
from bench.memory import settle
from bench.samples import Samples
from bench.scale import CODECS, Scale

SMALL = "small"
"""The topic of the small one-shot backup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    cluster: Cluster
    scale: Scale
    folder: Path

    def run(self, samples: Samples) -> None:
        """One figure each. Raises `CalledProcessError` when a command fails."""
        repository = str(self.folder)
        samples.add(help_s=_offsite("--help"), init_s=_offsite("init", repository))
        samples.add(one_shot_small_s=self._back_up(SMALL), one_shot_all_s=self._back_up(*CODECS))
        samples.add(list_s=_offsite("list", "--repo", repository), status_s=_offsite("status", "--repo", repository))
        shutil.rmtree(self.folder)

    def _back_up(self, *topics: str) -> float:
        self.cluster.rest()
        settle(self.scale.payload_bytes)
        place = ["--repo", str(self.folder), "--bootstrap", self.cluster.bootstrap]
        return _offsite("backup", "run", *place, "--backup", "-".join(topics), "--topics", ",".join(topics))


def _offsite(*arguments: str) -> float:
    command = [str(Path(sys.executable).with_name("offsite")), *arguments]
    start_s = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start_s
