"""An agent is heard while what follows a round gets on, however long that takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from offsite.backup.outages import Outages
from offsite.engine.runner import OnProgress, RunProgress
from offsite.model.clock import SystemClock
from offsite.operator.work import agent as agents
from offsite.operator.work.agent import AgentTools, make_agent
from offsite.operator.work.progress import ProgressRunner
from offsite.repository.repository import Repository
from tests.inline_runner import InlineRunner
from tests.memory_store import MemoryStore
from tests.passing_runner import PassingRunner
from tests.unit.operator.work.declared import UID, Declared


def progress(done: int, moved: int = 0) -> RunProgress:
    return RunProgress(
        tasks_total=9,
        tasks_done=done,
        tasks_failed=0,
        moved_bytes=moved,
        records=0,
        elapsed_s=1.0,
        worker_peak_rss_bytes=0,
    )


class Telling(PassingRunner):
    """Tells of these steps of each run."""

    told: Sequence[RunProgress] = ()

    def run_each(
        self,
        tasks: Sequence[Any],
        function: Callable[..., Any],
        on_outcome: Callable[..., Any],
        *,
        on_progress: OnProgress | None = None,
        keep_going: bool = True,
    ) -> None:
        assert on_progress is not None
        for each in self.told:
            on_progress(each)


def telling(*told: RunProgress) -> Telling:
    runner = Telling(InlineRunner())
    runner.told = told
    return runner


def test_tasks_that_only_run_are_not_heard() -> None:
    heard: list[str] = []
    shown: list[RunProgress] = []
    steps = [progress(0), progress(0), progress(0, 5), progress(0, 5), progress(1, 5)]
    ProgressRunner(telling(*steps), lambda: heard.append("on")).run([], print, on_progress=shown.append)
    assert (heard, shown) == (["on", "on"], steps)


def test_a_follower_of_an_agent_tells_its_voice_of_rounds_and_of_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Fake:
        def __init__(self, follow: Any, **parts: Any) -> None:
            made.append((follow, parts["on_round"]))

        def close(self) -> None:
            pass

    monkeypatch.setattr(agents, "Follower", Fake)
    store, said = MemoryStore(), []
    declared = Declared(store)  # type: ignore[arg-type]
    declared.start()
    tools = AgentTools(
        repository=Repository.init(store),  # type: ignore[arg-type]
        cluster=SimpleNamespace(),  # type: ignore[arg-type]
        open_spark=lambda _: nullcontext(telling(progress(1))),
        outages=Outages(give_up_after_s=1, clock=SystemClock(), on_outage=lambda _: None),
        clock=SystemClock(),
        on_round=lambda _: said.append("shown"),
    )
    voice = SimpleNamespace(end_round=said.append, report_progress=lambda: said.append("on"))
    agent = make_agent(UID, tools)
    with agent._parts.open_follower(declared.history.backups[0], lambda: None, voice):  # type: ignore[arg-type]
        (follow, on_round), *_ = made
        on_round(SimpleNamespace(plan=SimpleNamespace(source=SimpleNamespace(missing=("bills",)))))
        follow.runner.run([], print)
    assert said == [("bills",), "shown", "on"]
