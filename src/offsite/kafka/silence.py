"""What a reader does while the leader returns no records: ask again, and give up rather than guess.

The rule is in `evidence`. The module holds the patience: how long a reader bears every kind of silence. Only the empty
end of a compacted log proves something when the silence lasts.
"""

from __future__ import annotations

from offsite.kafka.evidence import (
    CONFIRMATIONS,
    GIVEN_UP_MAX_S,
    THROTTLED_MAX_S,
    FetchVerdict,
    TailLoss,
    judge_fetch,
    judge_tail,
)
from offsite.kafka.log_bounds import LeaderAnswers
from offsite.kafka.net.backoff import Backoff
from offsite.kafka.net.connection import Connection
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.configs import topic_configs_request
from offsite.kafka.protocol.fetch import FetchAnswer
from offsite.kafka.read_task import ReadTask
from offsite.log.range import Gap, GapEvidence
from offsite.model.clock import Clock
from offsite.model.errors import Denied, LeaderUnavailable, NoEvidence
from offsite.model.journal import decided

_CONFIRM_AFTER_S = 0.1
_UNPROVED = {
    TailLoss.IMPOSSIBLE: "its leader gives no records below its high watermark, and the topic is not compacted",
    TailLoss.UNPROVABLE: (
        "its leader gives no records below its high watermark; the topic is or was compacted and has remote storage, "
        "so either can be the cause"
    ),
}
_UNPROVED_HINT = (
    "is the remote storage slow? If the topic was compacted in the past, write one record into the partition"
)


class FetchPatience:
    """The patience of the reader of one range. `patience` is reset by the reader with every item."""

    def __init__(self, router: Router, clock: Clock, task: ReadTask, patience: Backoff) -> None:
        self._router = router
        self._clock = clock
        self._task, self._range = task, task.range
        self._patience = patience
        self._is_known_sick = router.silent_partitions.holds(task.range.topic_partition, clock.monotonic_s())
        self._empty_answers = 0
        self._throttled_since_s: float | None = None
        self._tail_loss: TailLoss | None = None
        self.is_waiting = False

    def reset(self) -> None:
        """Reset the counters: the position moved."""
        self._empty_answers, self._throttled_since_s, self.is_waiting = 0, None, False

    def forget_confirmations(self) -> None:
        """Forget the confirmations of an earlier leader: another broker may lead now."""
        self._empty_answers = 0

    def wait_out(self, connection: Connection, answer: FetchAnswer, *, position: int, epoch: int) -> Gap | None:
        """Wait, or return the gap up to the range's end when evidence shows no records. `epoch`: the leader epoch of
        the answer. Raises `NoEvidence` when the patience is used up."""
        self.is_waiting = True
        kind = judge_fetch(answer, end=self._range.end)
        if kind is not FetchVerdict.EMPTY:
            self._empty_answers = 0
        match kind:
            case FetchVerdict.THROTTLED:
                self._bear_throttle(answer, position)
            case FetchVerdict.BEHIND:
                self.wait(
                    f"its leader's high watermark is {answer.high_watermark}, and the plan reads to the end of the "
                    "range",
                    position,
                )
            case FetchVerdict.EMPTY if self._is_confirmed(connection, position, epoch):
                return self._tail(position, answer.high_watermark)
            case FetchVerdict.LEFT_OUT:
                self.wait("its leader does not answer for this partition", position)
            case FetchVerdict.EMPTY | FetchVerdict.RECORDS:
                pass  # to be asked again
        return None

    def wait(
        self, why: str, position: int, *, hint: str = "check the leader of this partition, then run again"
    ) -> None:
        """Sleep a little. Raises `NoEvidence` with `why` when the patience is used up."""
        self._tell("wait", why, position)
        self._patience.wait(
            NoEvidence(f"{self._range.topic_partition} cannot be read from offset {position} on: {why}", hint=hint)
        )

    def _is_confirmed(self, connection: Connection, position: int, epoch: int) -> bool:
        """Whether the log holds no records from the position on. If unproved, wait and return False, or raise
        `NoEvidence`."""
        if self._tail_loss is None:
            self._tail_loss = self._look_up_compaction()
        if self._tail_loss is not TailLoss.PROVABLE:
            self.wait(_UNPROVED[self._tail_loss], position, hint=_UNPROVED_HINT)
            return False
        bounds = LeaderAnswers(connection, self._range.topic_partition, epoch).bounds()
        if bounds.start > position or bounds.end < self._range.end:
            self._empty_answers = 0
            why = f"its leader says that the log is [{bounds.start}, {bounds.end}), and returns no records of it"
            self.wait(why, position)
            return False
        self._empty_answers += 1
        if self._empty_answers > CONFIRMATIONS:
            return True
        self._clock.sleep(_CONFIRM_AFTER_S * self._empty_answers)
        return False

    def _look_up_compaction(self) -> TailLoss:
        topic = self._range.topic
        try:
            answer = self._router.call(topic_configs_request([topic], with_defaults=True))
            if topic in answer.denied:
                raise answer.denied[topic]
            if topic not in answer.configs:
                raise LeaderUnavailable(f"the answer leaves out the settings of {topic}")
            configs = answer.configs[topic]
        except Denied as error:
            decided("unknown", why=error.message, topic=topic, setting="cleanup.policy")
            configs = {}
        return judge_tail(configs, was_compacted=self._task.was_compacted)

    def _bear_throttle(self, answer: FetchAnswer, position: int) -> None:
        """Note a throttled answer; the pause has already been made. Raises `NoEvidence` when the quota lets nothing
        through for too long."""
        now_s = self._clock.monotonic_s()
        if self._throttled_since_s is None:
            self._throttled_since_s = now_s
            self._tell("throttle", f"throttled by the cluster's quota for {answer.throttle_ms} ms", position)
        elif now_s - self._throttled_since_s > (GIVEN_UP_MAX_S if self._is_known_sick else THROTTLED_MAX_S):
            raise NoEvidence(
                f"{self._range.topic_partition}: the cluster's quota allowed no records from offset {position} on",
                hint="raise consumer_byte_rate of this user or client id (kafka-configs), then run again",
            )

    def _tail(self, position: int, high_watermark: int) -> Gap:
        where, why = self._range, GapEvidence.COMPACTION
        self._tell("skip", why.value, position, at=high_watermark)
        return Gap(
            topic=where.topic,
            partition=where.partition,
            start=position,
            end=where.end,
            evidence=why,
            seen_at=high_watermark,
        )

    def _tell(self, event: str, why: str, position: int, *, at: int | None = None) -> None:
        where = self._range
        decided(event, why=why, topic=where.topic, partition=where.partition, position=position, end=where.end, at=at)
