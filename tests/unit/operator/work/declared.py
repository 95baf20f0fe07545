"""A declared backup in a store, as an operator has begun it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from offsite.repository.declared.entry import BackupSettings, BackupStart, DeclaredEntry, DeclaredEntryKind, Origin
from offsite.repository.declared.history import DeclaredHistory
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.ledger import DeclaredLedger, claim_name, declared_ledger
from offsite.stores.store import Store

UID = "0123abcd-0001"
BEGINNING = BackupStart(backup="b", path="b", tag="default", cluster="shop", topics=("*",))
SETTINGS = BackupSettings(snapshot_duration="7d")


@dataclass
class Declared:
    store: Store
    uid: str = UID
    word: str = "w"

    @property
    def layout(self) -> DeclaredLayout:
        return DeclaredLayout(uid=self.uid)

    @property
    def ledger(self) -> DeclaredLedger:
        return declared_ledger(self.store, self.layout.uid)

    @property
    def history(self) -> DeclaredHistory:
        return self.ledger.read()

    def decide(
        self, kind: DeclaredEntryKind, *, number: int = 0, fence: int = 1, generation: int = 1, **parts: object
    ) -> None:
        """Enter something, of the newest backup unless it is said otherwise."""
        now = self.history
        entry = DeclaredEntry(
            seq=now.seq + 1,
            previous=now.head,
            kind=kind,
            generation=max(generation, now.generation),
            fence=max(fence, now.fence),
            word=f"{self.word}{now.seq}",
            at_ms=self.store.now_ms(),
            number=number or len(now.backups),
            **parts,  # type: ignore[arg-type]
        )
        assert self.ledger.append(entry, to=now) is not None

    def start(self, name: str = "b", *, topics: tuple[str, ...] = ("*",), origin: Origin | None = None) -> None:
        claim_name(self.store, name, self.uid)
        number = len(self.history.backups) + 1
        beginning = replace(BEGINNING, backup=name, topics=topics)
        self.decide(DeclaredEntryKind.STARTED, number=number, beginning=beginning, settings=SETTINGS, origin=origin)
