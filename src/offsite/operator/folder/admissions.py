"""Updates records from the files, as one process has observed the files for a while: only this module counts
observations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Protocol

from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError
from offsite.model.ids import random_uuid
from offsite.operator.decide.steady import Stability, StabilizationWindow
from offsite.operator.folder.admission import Admission, ObservedDeclaration, admit, spec_of
from offsite.operator.folder.documents import DeclaredDocuments, Document, ResourceKey
from offsite.operator.folder.records import Edit, ResourceRecord
from offsite.operator.folder.status import Condition


class DeclaredRecords(Protocol):
    """The interface of `ResourceRecords`."""

    def all(self) -> Sequence[ResourceRecord]: ...

    def find(self, kind: str, name: str) -> ResourceRecord | None: ...

    def change(self, kind: str, name: str, edit: Edit) -> ResourceRecord | None: ...


class Admissions:
    """`is_whole`: whether the file of a document is known to be whole, so that no second observation is needed."""

    def __init__(
        self,
        *,
        records: DeclaredRecords,
        is_whole: Callable[[Document], bool],
        clock: Clock,
        absent_after_s: float,
        settle_s: float,
    ) -> None:
        self._records, self._is_whole, self._clock = records, is_whole, clock
        self._away = StabilizationWindow(enough_s=absent_after_s)
        self._settling = StabilizationWindow(enough_s=settle_s)

    def settles(self, declared: DeclaredDocuments) -> bool:
        """Observe without deciding; return whether some declaration is new and not known to be whole."""
        news = [
            document
            for document in declared.documents
            if self._lasting(document) is not None and self._is_news(document)
        ]
        return bool(news)

    def admit_all(self, declared: DeclaredDocuments) -> dict[ResourceKey, Sequence[Condition]]:
        """Update all records from the files. Return the problems and waits of every resource that a file declares, or
        may declare."""
        by_key = defaultdict[ResourceKey, list[Document]](list)
        for document in declared.documents:
            by_key[document.key].append(document)
        problems: dict[ResourceKey, Sequence[Condition]] = dict.fromkeys(by_key, ())
        keys = {**problems, **{record.key: () for record in self._records.all()}}
        for key in keys:
            try:
                said = self._admit(key, by_key.get(key, []), declared)
            except OffsiteError as error:
                said = [misconfigured(key, f"{error.id}: {error.message}")]
            if said or key in problems:
                problems[key] = said
        for steady in (self._away, self._settling):
            steady.keep_only(keys)
        return problems

    def _admit(self, key: ResourceKey, documents: Sequence[Document], declared: DeclaredDocuments) -> list[Condition]:
        conditions = list[Condition]()
        sight = ObservedDeclaration(
            key=key,
            documents=documents,
            now_ms=self._clock.now_ms(),
            uid=random_uuid(),
            settling=self._lasting(documents[0]) if len(documents) == 1 else None,
            away=self._absence(key) if not documents and not declared.unclear else None,
        )
        if sight.away is None:
            self._away.forget(key)

        def edit(record: ResourceRecord | None) -> ResourceRecord | None:
            sources = {document.source for document in declared.documents}
            admission = admit(record, replace(sight, is_source_there=record is not None and record.source in sources))
            unclear = "" if record is None or documents else _unclear(declared, record)
            conditions[:] = _told(key, admission, unclear)
            return admission.record

        self._records.change(*key, edit)
        return conditions

    def _lasting(self, document: Document) -> Stability | None:
        """Return how long the file was stable; None if the file is known to be whole."""
        lasting = self._look_at(self._settling, document.key, (document.source, document.digest))
        return None if self._is_whole(document) else lasting

    def _is_news(self, document: Document) -> bool:
        record = self._records.find(*document.key)
        return record is None or document.resource is None or spec_of(document.resource) != record.spec

    def _absence(self, key: ResourceKey) -> Stability:
        return self._look_at(self._away, key, "away")

    def _look_at(self, steady: StabilizationWindow, key: Hashable, value: Hashable) -> Stability:
        return steady.look(key, value, now_s=self._clock.monotonic_s(), now_ms=self._clock.now_ms())


def misconfigured(key: ResourceKey, why: str) -> Condition:
    return Condition(type=f"Misconfigured{key[0]}", message=why)


def _told(key: ResourceKey, admission: Admission, unclear: str) -> list[Condition]:
    """The problem of the declaration, and the waits, as conditions."""
    why = admission.problem or unclear
    waits = [Condition(type=kind, message=said) for kind, said in admission.waits.items()]
    return [*([misconfigured(key, why)] if why else []), *waits]


def _unclear(declared: DeclaredDocuments, record: ResourceRecord) -> str:
    """Return why a record may or may not be declared still; empty: known, or deletion requested."""
    if record.is_deleted or not declared.unclear:
        return ""
    if reason := declared.unclear.get(record.source):
        return reason
    return f"{record.source} is missing, and {min(declared.unclear)}, which may declare the resource, cannot be read"
