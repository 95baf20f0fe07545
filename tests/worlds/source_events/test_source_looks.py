"""Whatever happens to a source, a look calls nothing lost that is there, and misses no loss that it can see."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable

import pytest

from offsite.model.errors import BackupNotFound
from offsite.overview import source_evidence
from offsite.overview.comparison import TopicComparison, TopicState
from offsite.overview.source_evidence import Sightings, SourceLook
from offsite.overview.source_judgement import compare_topics
from offsite.overview.source_look import look_at_source
from offsite.repository.commit import TopicShape
from offsite.repository.state import BackupState
from tests.worlds.source_events.judge import Known
from tests.worlds.source_events.play import Play
from tests.worlds.source_events.source import SimAdmin, SimTopic

SCHEDULES = 40
MANY = 5_000
OF_LOGS = {TopicState.SHRUNK, TopicState.UNREAD, TopicState.BEHIND, TopicState.CURRENT, TopicState.AT_RISK}


class LookingPlay(Play):
    """A schedule with a look at the source before each run."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.states: Counter[TopicState] = Counter()
        self.sightings = Sightings()

    def _back_up(self, *, quiet: bool = False) -> None:
        self._look()
        super()._back_up(quiet=quiet)

    def _look(self) -> None:
        try:
            backup = self.repository.backup("sim")
        except BackupNotFound:
            return
        state = backup.readable_state()
        admin = SimAdmin(self.source)
        look = look_at_source(admin, backup, state, looked_ms=backup.store.now_ms())  # type: ignore[arg-type]
        self.sightings = self.sightings.after(state, look)
        compared = {topic.topic: topic for topic in compare_topics(state, look, self.sightings)}
        for name, shape in state.latest_shapes().items():
            self.states[compared[name].state] += 1
            self._judge(state, shape, look, compared[name])

    def _judge(self, state: BackupState, shape: TopicShape, look: SourceLook, compared: TopicComparison) -> None:
        name, said = shape.topic, compared.state
        real, is_hidden = self.source.topics.get(name), name in self.source.hidden
        is_same = real is not None and str(real.topic_id) == shape.topic_id
        has_earlier = any(other.topic == name and other != shape.incarnation for other in state.topics)
        if is_hidden:
            expected = {TopicState.GONE} if shape.is_deleted else {TopicState.HIDDEN}
        elif real is None:
            expected = {TopicState.GONE}
        elif not is_same:
            expected = {TopicState.RECREATED}
        else:
            expected = OF_LOGS | ({TopicState.RECREATED} if has_earlier else set())
        assert said in expected, f"{name} is called {said}, and is {expected}"
        assert said is not TopicState.GONE or not is_same
        if is_same and not is_hidden:
            assert real is not None
            self._judge_logs(state, shape, real, look)

    def _judge_logs(self, state: BackupState, shape: TopicShape, real: SimTopic, look: SourceLook) -> None:
        for partition_id in shape.partition_ids:
            key, log = partition_id.topic_partition, real.logs[partition_id.partition]
            claimed, position = self.judge.known.get(partition_id, Known()), state.positions.get(partition_id)
            if key not in look.bounds or position is None:
                continue
            differs = any(
                offset >= log.log.end or log.truth[offset] != value
                for offset, value in enumerate(claimed.values)
                if value is not None
            )
            is_shorter = log.log.start < position.end and log.log.end < position.end
            if key in look.log_ends:
                assert differs or is_shorter or claimed.doubtful, f"{key} is called cut back, and is as backed up"
            else:
                assert not is_shorter or not position.is_exact, f"{key} is shorter than the backup, and not called so"


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger="offsite")


def played(number: int) -> LookingPlay:
    play = LookingPlay(number)
    try:
        play.play()
    except AssertionError as error:
        raise AssertionError(f"schedule {number}: {error}\n  " + "\n  ".join(play.told)) from error
    return play


def states_of(numbers: Iterable[int]) -> Counter[TopicState]:
    """How often each state was told."""
    return sum((played(number).states for number in numbers), Counter[TopicState]())


def test_a_look_tells_losses_and_nothing_else_whatever_happens() -> None:
    states = states_of(range(SCHEDULES))
    kinds = {TopicState.GONE, TopicState.RECREATED, TopicState.SHRUNK, TopicState.HIDDEN, TopicState.UNREAD}
    assert kinds <= states.keys(), states


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_look_tells_losses_and_nothing_else_over_many_schedules() -> None:
    assert states_of(range(MANY))[TopicState.SHRUNK] > MANY


def test_the_judge_sees_a_hidden_topic_that_is_called_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    states = dict.fromkeys(source_evidence.STATES, TopicState.GONE)
    monkeypatch.setattr(source_evidence, "STATES", states)
    with pytest.raises(AssertionError, match=r"is called gone, and is .*hidden"):
        states_of(range(SCHEDULES))
