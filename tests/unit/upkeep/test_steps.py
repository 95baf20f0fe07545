"""Work in steps counts the work alone, however long somebody else takes between them."""

from __future__ import annotations

from collections.abc import Generator

from offsite.upkeep.deletion import PAUSE_S, Pauses, run_to_end


class Machine:
    """A clock on which each look at it takes a tenth of a pause."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now_ms(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        self.now_s += PAUSE_S / 10
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self.now_s += duration_s


def work(clock: Machine, pieces: int) -> Generator[None, None, int]:
    paused = Pauses(clock)
    for _ in range(pieces):
        yield from paused.if_due()
    return pieces


def test_a_step_is_as_much_work_after_a_long_pause_as_before() -> None:
    clock = Machine()
    steps, pauses = work(clock, 100), 0
    for _ in steps:
        pauses += 1
        clock.sleep(1000.0)  # a round of the backup
    assert 5 < pauses < 15


def test_work_without_pauses_has_the_same_result() -> None:
    assert run_to_end(work(Machine(), 100)) == 100
