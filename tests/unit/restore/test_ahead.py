from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from offsite.restore.write.pieces import DataPiece, LogPiece, LookAhead, TransactionEnd, UnusedOffsets

Steps = Sequence[tuple[str, int]]
"""`data` and `end` of a producer; `plain` data, and a gap."""
STEPS = st.lists(st.tuples(st.sampled_from(["data", "end", "plain", "gap"]), st.integers(0, 3)), max_size=60)
WINDOWS = st.integers(1, 12)


def log(steps: Steps) -> list[LogPiece]:
    """With an end for each transaction that has none."""
    pieces, open_ = list[LogPiece](), dict[int, None]()
    for kind, producer_id in steps:
        at = len(pieces)
        match kind:
            case "data":
                open_[producer_id] = None
                pieces.append(DataPiece(at, at + 1, bytearray(10), producer_id))
            case "end":
                open_.pop(producer_id, None)
                pieces.append(TransactionEnd(at, at + 1, producer_id, committed=True))
            case "plain":
                pieces.append(DataPiece(at, at + 1, bytearray(10), None))
            case _:
                pieces.append(UnusedOffsets(at, at + 1))
    return [
        *pieces,
        *(TransactionEnd(len(pieces) + n, len(pieces) + n + 1, each, True) for n, each in enumerate(open_)),
    ]


def producer_of(piece: LogPiece) -> int | None:
    return None if isinstance(piece, UnusedOffsets) else piece.producer_id


@given(STEPS, WINDOWS)
def test_all_pieces_come_in_their_order(steps: Steps, most: int) -> None:
    pieces = log(steps)
    assert list(LookAhead(iter(pieces), most=most)) == pieces


@given(STEPS, WINDOWS)
def test_the_transactions_ahead_are_those_that_begin_and_end_in_the_window(steps: Steps, most: int) -> None:
    pieces = log(steps)
    ahead = LookAhead(iter(pieces), most=most)
    for at, _ in enumerate(ahead):
        # The window is as full as it may be, but for the piece that was taken.
        window = pieces[at + 1 : at + most]
        open_before = {each for each in range(4) if is_open(pieces[: at + 1], each)}
        assert ahead.whole_transactions == count_whole(window, open_before)


@given(STEPS, WINDOWS)
def test_who_goes_on_only_where_one_is_ahead_has_none_left_at_the_end(steps: Steps, most: int) -> None:
    """As the writer does it: a coordinator's transaction goes on behind an outcome of ours, and the next one of the
    source takes it."""
    going_on, mine = 0, set[int]()
    ahead = LookAhead(iter(log(steps)), most=most)
    for piece in ahead:
        producer_id = producer_of(piece)
        if producer_id is not None and producer_id not in mine:
            mine.add(producer_id)
            going_on = max(going_on - 1, 0)
        if isinstance(piece, TransactionEnd):
            mine.remove(piece.producer_id)
            going_on += going_on < ahead.whole_transactions
        assert going_on <= ahead.whole_transactions
    assert going_on == 0


def test_what_began_before_is_not_ahead() -> None:
    pieces = [TransactionEnd(at, at + 1, 7 + at, committed=True) for at in range(3)]
    ahead = LookAhead(iter(pieces), [8])
    assert [ahead.whole_transactions for _ in ahead] == [1, 1, 0]


def test_the_window_is_small_in_bytes_too() -> None:
    pieces = [DataPiece(n, n + 1, bytearray(100), n) for n in range(10)]
    pieces_and_end = [*pieces, TransactionEnd(10, 11, 9, committed=True)]
    ahead = LookAhead(iter(pieces_and_end), most_bytes=250)
    assert [ahead.whole_transactions for _ in ahead] == [0] * 8 + [1, 0, 0]


def is_open(pieces: Sequence[LogPiece], producer_id: int) -> bool:
    mine = [each for each in pieces if producer_of(each) == producer_id]
    return bool(mine) and isinstance(mine[-1], DataPiece)


def count_whole(window: Sequence[LogPiece], open_before: set[int]) -> int:
    begun, count, before = set[int](), 0, set(open_before)
    for piece in window:
        producer_id = producer_of(piece)
        if producer_id is None:
            continue
        if isinstance(piece, TransactionEnd):
            count += producer_id not in before
            before.discard(producer_id)
            begun.discard(producer_id)
        else:
            begun.add(producer_id)
    return count
