"""How much memory a run that follows takes, round after round: what a round leaves behind would add up for months.

All its processes together, as the system counts them. The first 150 rounds are left out. In them Java compiles what it
runs often, and starts the threads by which Spark forgets what a job has sent out: up to 200 where rounds follow each
other so fast, of 0.1 MB each. The driver loads what writes the first catalog, after 100 commits.
"""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from offsite.model.units import KIB, MIB
from offsite.sandbox import SandboxInfo
from tests.integration.e2e.command import start, succeed
from tests.integration.e2e.test_follow import head_commit, make, producing
from tests.integration.kafka.cluster import Cluster
from tests.processes import processes_with, wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

MARK = "OFFSITE_FOLLOW_MEMORY"
WARM_ROUNDS, ROUNDS = 150, 500
STEP = 10
GROWTH_LIMIT_BYTES = 20 * MIB
"""0.06 MiB a round. It takes 490 MB, and grew by 0.4 MB from round 200 to 320 when this was written."""


def resident_bytes(mark: str) -> int:
    """Of all processes of the run. A worker that has just ended counts nothing."""
    return sum(_resident(pid) for pid in processes_with(MARK, mark))


def _resident(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * KIB for line in lines if line.startswith("VmRSS:"))


def test_a_run_that_follows_takes_no_more_memory_after_hundreds_of_rounds(broker: SandboxInfo, tmp_path: Path) -> None:
    names = ["--repo", str(tmp_path / "repo"), "--backup", "b"]
    succeed("init", tmp_path / "repo")
    pattern, topics = make(Cluster(broker.bootstrap), 2)
    ends = [*names, "--bootstrap", broker.bootstrap, "--topics", pattern, "--interval", "200ms", "-o", "jsonl"]
    seen: dict[int, int] = {}
    with producing(broker.bootstrap, topics), ThreadPoolExecutor() as pool:
        running = start("backup", "run", "--follow", *ends, environment={MARK: str(tmp_path)})
        told = pool.submit(running.communicate)  # or it would wait for a reader of its lines
        for number in range(STEP, ROUNDS + STEP, STEP):
            wait_until(lambda number=number: head_commit(names) >= number, f"commit {number}")  # type: ignore[misc]
            seen[number] = resident_bytes(str(tmp_path))
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0, told.result()
    warm = [size for number, size in seen.items() if number > WARM_ROUNDS]
    assert max(warm[-5:]) - min(warm[:5]) < GROWTH_LIMIT_BYTES, seen
