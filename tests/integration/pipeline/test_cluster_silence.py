"""A run that has lost all executors says so within seconds, and ends by name within a bound."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from offsite.engine.sessions.session import WAIT_SETTING
from offsite.model.clock import SystemClock
from offsite.model.errors import SparkFailed
from offsite.monitor.waiting import waiting_now
from tests import spark_tasks
from tests.integration.pipeline.cluster_losses import Running, cluster_runner
from tests.processes import wait_until
from tests.worker_cluster import Part, worker_cluster

LIMIT_S = 15.0
"""After which a run without executors ends."""


@pytest.mark.parametrize("loss", ["workers", "master"])
@pytest.mark.soak
@pytest.mark.timeout(240)
def test_a_run_that_has_lost_all_executors_says_so_and_ends(tmp_path: Path, loss: str) -> None:
    more = {WAIT_SETTING: f"{LIMIT_S:.0f}s"}
    with worker_cluster(tmp_path, recovers=False) as workers, cluster_runner(workers.url, more) as runner:
        marker = tmp_path / "began"
        with Running(lambda: runner.run([marker], spark_tasks.wait_for_ever)) as run:
            wait_until(marker.exists, "the task to begin")
            if loss == "workers":
                for machine in workers.workers:
                    machine.kill()
            else:  # the new one does not know the application, and has its executors killed
                workers.master.kill()
                workers.master.start()
            wait_until(lambda: not any(m.processes(Part.EXECUTOR) for m in workers.workers), "executors to end")
            lost_s, said = time.monotonic(), ""
            try:
                while run.is_alive() and time.monotonic() < lost_s + LIMIT_S + 20:
                    waiting = waiting_now(SystemClock())
                    said = said or (waiting.subject if waiting else "")
                    time.sleep(0.2)
                ended = not run.is_alive()
            finally:
                runner.close()
        assert ended, f"it still waits {LIMIT_S + 20} s after its last executor went; it said {said!r}"
        assert "executor" in said
        with pytest.raises(SparkFailed, match="executor") as raised:
            run.result()
        assert raised.value.hint
