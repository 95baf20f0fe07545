"""Looks at the next pieces of a log before the write: which transactions begin *and* end among them.

The window is small in pieces and bytes, and is written within minutes even at a low rate; brokers keep transactions
open for longer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from offsite.model.units import MIB
from offsite.restore.write.preserve.pieces import DataPiece, LogPiece, TransactionEnd

PIECES_MAX = 2_048
BYTES_MAX = 4 * MIB


@dataclass(slots=True, eq=False)
class _WindowPiece:
    """A piece in the window. `is_beginning`: a transaction begins with the piece and ends in the window."""

    piece: LogPiece
    size_bytes: int
    is_beginning: bool = False
    has_passed: bool = False


class LookAhead:
    """Iterates over `pieces`, and reads some pieces ahead of the consumer. `open_`: the source's producer ids of
    transactions that began before."""

    def __init__(
        self,
        pieces: Iterable[LogPiece],
        open_: Collection[int] = (),
        *,
        most: int = PIECES_MAX,
        most_bytes: int = BYTES_MAX,
    ) -> None:
        self.whole_transactions = 0
        """Transactions that begin behind the last consumed piece, and end in the window."""
        self._pieces, self._most, self._most_bytes = iter(pieces), most, most_bytes
        self._window: deque[_WindowPiece] = deque()
        self._bytes = 0
        self._beginnings: dict[int, _WindowPiece | None] = dict.fromkeys(open_)

    def __iter__(self) -> Iterator[LogPiece]:
        for piece in self._pieces:
            self._see(piece)
            while len(self._window) >= self._most or self._bytes > self._most_bytes:
                yield self._pass()
        while self._window:
            yield self._pass()

    def _see(self, piece: LogPiece) -> None:
        window_piece = _WindowPiece(piece, len(piece.batch) if isinstance(piece, DataPiece) else 0)
        self._window.append(window_piece)
        self._bytes += window_piece.size_bytes
        if isinstance(piece, DataPiece) and piece.producer_id is not None:
            self._beginnings.setdefault(piece.producer_id, window_piece)
        elif isinstance(piece, TransactionEnd):
            beginning = self._beginnings.pop(
                piece.producer_id, window_piece
            )  # a transaction without data begins with its end
            if beginning is not None and not beginning.has_passed:
                beginning.is_beginning = True
                self.whole_transactions += 1

    def _pass(self) -> LogPiece:
        window_piece = self._window.popleft()
        window_piece.has_passed = True
        self._bytes -= window_piece.size_bytes
        self.whole_transactions -= window_piece.is_beginning
        return window_piece.piece
