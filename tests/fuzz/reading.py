"""What came of reading some bytes: data, the damage that was named, what the result says nothing vouches for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from offsite.model.errors import Bug, OffsiteError

_UNPROVEN = re.compile("vouch|cannot be verified|can be verified only", re.IGNORECASE)


@dataclass
class Reading:
    """`data` by part, as plain values that compare. A part that ended in a named error is not in it."""

    data: dict[str, object] = field(default_factory=dict)
    named: list[str] = field(default_factory=list)
    unvouched: list[str] = field(default_factory=list)

    @contextmanager
    def part(self) -> Iterator[None]:
        """One part of what is read: an error of ours with a name ends it, and nothing else may."""
        try:
            yield
        except Bug:
            raise
        except OffsiteError as error:
            self.named.append(f"{error.id} {type(error).__name__}: {error.message}")

    def hear(self, sentences: Iterable[str]) -> None:
        """What a result says of what it holds: kept where it says that nothing vouches for it."""
        self.unvouched += [each for each in sentences if _UNPROVEN.search(each)]
