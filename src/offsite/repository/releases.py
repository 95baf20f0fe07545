"""When a release counts. A release is an entry of a ledger: a person permits the complete deletion of a declared backup
or of a generation, although no comparison allows the deletion. See decision 0046.

Every party that may create objects can write such an entry, in anybody's name. A release therefore counts at once on
the machine of its origin, and on another machine some days after that machine first saw the release. Until the release
counts, the released backup stays, and a viewer is informed. A person may refuse a release: the release then never
counts on the local machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.units import format_time
from offsite.repository.leftovers import LEFTOVER_AFTER_MS
from offsite.repository.let_go_memory import RememberedFacts
from offsite.stores.numbered_log import LedgerEntryInfo
from offsite.stores.store import Store

RELEASE_AFTER_MS = 3 * LEFTOVER_AFTER_MS
"""How long a machine has known of a foreign release before it counts: somebody looks meanwhile."""
_BY_MAX = 100
"""Characters shown of a name: every party that may create objects can choose the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseMemory:
    """The local machine's memory of the releases in the ledger below `prefix`. A hash names an entry wherever it lies:
    an operator and a person may write the URL of a store in two ways."""

    store: Store
    prefix: str

    def note_given(self, word: LedgerEntryInfo) -> None:
        """Note that a person gave the release here, or here as well."""
        self._facts.put(_name(word, "given"), {"given": True})

    def note_refused(self, word: LedgerEntryInfo) -> None:
        """Note that a person refused the release here, unless it was given here."""
        self._facts.put(_name(word, "given"), {"given": False})

    def doubt(self, word: LedgerEntryInfo) -> str:
        """Why the release does not count here, or not yet; empty if it counts. Raises the errors of the store."""
        who = f"the release of {format_time(word.at_ms)}, in the name of {word.by[:_BY_MAX] or 'nobody'},"
        if (answer := self._facts.get(_name(word, "given"))) is not None:
            return "" if answer.flag("given") else f"{who} was refused on this machine"
        now_ms = self.store.now_ms()
        seen_ms = self._facts.first_seen_ms(_name(word, "seen"), now_ms=now_ms)
        if seen_ms is None:
            return (
                f"{who} does not count: it was not given on this machine, and this machine cannot store when it first "
                "saw the release. Set XDG_STATE_HOME to a folder, or give the release on this machine too"
            )
        if now_ms - seen_ms >= RELEASE_AFTER_MS:
            return ""
        return (
            f"{who} was not given on this machine: it counts here from {format_time(seen_ms + RELEASE_AFTER_MS)}, or "
            "as soon as you give it here too; if it is wrong, refuse it here (release --refuse)"
        )

    @property
    def _facts(self) -> RememberedFacts:
        return RememberedFacts(kind="releases", place=self.prefix, name=self.prefix.strip("/").replace("/", "."))


def _name(word: LedgerEntryInfo, kind: str) -> str:
    return f"{word.hash[:32]}.{kind}"
