"""An archive with offsite's index: lists the contents, says where to continue, and makes new ranges count.

Write order: files of ranges, index of every topic, manifest; replaced files are deleted last. A crash leaves files
outside every index, or topics outside the manifest; readers ignore both, `ends` removes both. Therefore the manifest
counts the writes of every index: with an older, restored index, newer files would look like leftovers of a crash. Files
with names not given by offsite are never removed. Files without a manifest or an index are read by names and contents,
and never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from offsite.archives.archive import (
    ArchiveContents,
    ArchiveTopic,
    Damage,
    FileReceipt,
    OnDamage,
    Piece,
    RangeReceipt,
    ignore_damage,
    refuse_damage,
)
from offsite.archives.files import Files
from offsite.archives.indexed.index import ArchiveManifest, TopicIndex, find_unvouched
from offsite.archives.indexed.index_json import BadIndex, encode_index, encode_manifest, parse_index, parse_manifest
from offsite.archives.indexed.layout import MANIFEST_KEY, ArchiveLayout
from offsite.log.group_offsets import GroupOffsets
from offsite.log.range import TopicPartition
from offsite.model.errors import ArchiveBusy, ArchiveNotFound, BadOption, DamagedArchive, OverwritingStore
from offsite.model.journal import decided

RECORDS_ONLY = (
    "records only: batches and their compression, producer ids, transaction markers and leader epochs are not kept"
)
"""Properties lost in every archive of this kind."""

_TABLE_LOGS = {"_delta_log/": "Delta Lake", ".hoodie/": "Hudi"}

FirstOffset = Callable[[str], int | None]
"""Returns the offset of the first record in a file, or None for an unknown offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedArchive:
    """An archive with an index. `kinds`: the variants of a format, as named by manifests, with the properties lost by
    each variant."""

    files: Files
    layout: ArchiveLayout
    kinds: Mapping[str, Sequence[str]]

    def contents(self, first_offset: FirstOffset, on_damage: OnDamage) -> ArchiveContents:
        """Implement `ArchiveReader.contents`. `first_offset` is called for files outside every index only."""
        manifest = self._manifest(on_damage)
        if manifest is not None and manifest.kind not in self.kinds:
            raise ArchiveNotFound(f"{self.files.url} has an archive of format {manifest.kind}")
        topics = manifest.topics if manifest else self._topics_by_name()
        keys = () if manifest else tuple(self._keys())
        strays = [key for key in keys if self.layout.is_stray(key)]
        if not topics and manifest is None:
            raise self._not_found(strays)
        indexes = {topic: self._index(topic, on_damage, manifest) for topic in topics}
        indexed = [index for index in indexes.values() if index is not None]
        unindexed = [self._by_names(topic, first_offset) for topic, index in indexes.items() if index is None]
        kind = manifest.kind if manifest else next(iter(self.kinds))
        return ArchiveContents(
            topics=tuple(sorted([*(index.topic for index in indexed), *(topic for topic, _ in unindexed)], key=_name)),
            pieces=tuple(piece for index in indexed for piece in index.pieces())
            + tuple(piece for _, pieces in unindexed for piece in pieces),
            fidelity=(
                *self.kinds[kind],
                *_loss_sentences(indexed),
                *find_unvouched(manifest, indexes),
                *_not_read(strays),
                *_uncounted(keys),
                *self._same_numbers(piece for _, pieces in unindexed for piece in pieces),
            ),
            groups=manifest.groups if manifest else {},
            holes=tuple(hole for index in indexed for hole in index.holes()),
        )

    def _not_found(self, strays: Sequence[str]) -> ArchiveNotFound:
        if not strays:
            example = f"names look like {self.layout.file_key('orders', 0, 0)}"
            return ArchiveNotFound(f"{self.files.url} has no files of this format", hint=example)
        return ArchiveNotFound(
            f"{self.files.url} has no files of this format: {_some(strays)} not in a folder of a topic and a partition",
            hint=self.layout.advice or f"names look like {self.layout.file_key('orders', 0, 0)}",
        )

    def check_sizes(self, on_damage: OnDamage) -> None:
        """Report indexed files that are missing or have another size in a listing."""
        manifest = self._manifest(ignore_damage)
        indexes = (self._index(topic, ignore_damage, manifest) for topic in (manifest.topics if manifest else ()))
        listed = [receipt for index in indexes if index is not None for receipt in index.files]
        sizes = {info.key: info.size_bytes for info in self.files.list()} if listed else {}
        for receipt in listed:
            if (size_bytes := sizes.get(receipt.name)) is None:
                on_damage(Damage(file=receipt.name, position=0, problem="missing, although the index lists it"))
            elif size_bytes != receipt.size_bytes:
                position, problem = (
                    min(size_bytes, receipt.size_bytes),
                    f"{size_bytes} bytes, {receipt.size_bytes} in the index",
                )
                on_damage(Damage(file=receipt.name, position=position, problem=problem))

    def listed(self, piece: Piece) -> Mapping[str, FileReceipt]:
        """Return the receipts of the index for the files of `piece`; empty without a readable index."""
        index = self._index(piece.topic, ignore_damage, None)
        return (
            {} if index is None else {receipt.name: receipt for receipt in index.files if receipt.name in piece.files}
        )

    def ends(self, kind: str) -> Mapping[TopicPartition, int]:
        """Implement `ArchiveWriter.ends`. Creates the manifest of a new archive, so offsite may clean up from then on.

        Raises `BadOption` when the archive has another kind than `kind`.
        """
        manifest = self._manifest(refuse_damage)
        if manifest is None:
            manifest = self._create_manifest(kind)
        if manifest.kind != kind:
            raise BadOption(
                f"{self.files.url} has an archive of format {manifest.kind}, not {kind}",
                hint="export into another place",
            )
        indexes = self._indexes(manifest)
        self._remove_unlisted(indexes)
        return {
            TopicPartition(topic=topic, partition=partition): end
            for topic, index in indexes.items()
            for partition, end in index.ends().items()
        }

    def topic_ids(self) -> Mapping[str, str]:
        """Implement `ArchiveWriter.topic_ids`."""
        indexes = self._indexes(self._manifest(refuse_damage) or ArchiveManifest(kind=""))
        return {topic: index.topic.topic_id for topic, index in indexes.items() if index.topic.topic_id}

    def stored_indexes(self) -> Mapping[str, TopicIndex]:
        """Return the indexes of all topics, by name. Raises `ArchiveNotFound`, `DamagedArchive`: without a manifest no
        file is known to count."""
        manifest = self._manifest(refuse_damage)
        if manifest is None or manifest.kind not in self.kinds:
            content = f"an archive of format {manifest.kind}" if manifest else f"no {MANIFEST_KEY}"
            raise ArchiveNotFound(
                f"{self.files.url} holds {content}", hint="give the archive as offsite export wrote it"
            )
        return self._indexes(manifest)

    def rewrite(self, topic: str, change: Callable[[TopicIndex], TopicIndex]) -> None:
        """Replace the index of `topic` by the result of `change`. Raises `ArchiveBusy` when another process wrote
        first."""
        data, old = self._read_to_change(topic, self._manifest(refuse_damage))
        if (new := change(old)) == old:
            return
        new = replace(new, generation=old.generation + 1)
        if not self.files.replace(self.layout.index_key(topic), data, encode_index(new)):
            raise self._busy(topic)

    def finish(
        self,
        kind: str,
        written: Sequence[RangeReceipt],
        topics: Sequence[ArchiveTopic],
        groups: Mapping[str, GroupOffsets],
    ) -> None:
        """Implement `ArchiveWriter.finish`. Unchanged indexes are not written. Raises `ArchiveBusy` if another process,
        except retention, wrote an index since the read."""
        manifest = self._manifest(refuse_damage) or ArchiveManifest(kind=kind)
        indexes = self._indexes(manifest)
        generations = {topic: index.generation for topic, index in indexes.items()}
        replaced: list[str] = []
        for topic in topics:
            of_topic = [range_receipt for range_receipt in written if range_receipt.range.topic == topic.topic]
            old, new = self._write_index(topic, of_topic, indexes.get(topic.topic), manifest)
            generations[topic.topic] = new.generation
            new_names = {receipt.name for receipt in new.files}
            replaced += (receipt.name for receipt in old.files if receipt.name not in new_names)
        names = {*manifest.topics, *(topic.topic for topic in topics)}
        written_last = ArchiveManifest(kind=kind, topics=tuple(sorted(names)), groups=groups, generations=generations)
        self.files.put(MANIFEST_KEY, encode_manifest(written_last))
        for key in replaced:
            self.files.delete(key)

    def _write_index(
        self,
        topic: ArchiveTopic,
        written: Sequence[RangeReceipt],
        recorded: TopicIndex | None,
        manifest: ArchiveManifest,
    ) -> tuple[TopicIndex, TopicIndex]:
        """Return the index of a topic before and after adding `written`. The old index is `recorded`, or shorter by
        now: an export may stop for days between read and write. Files taken out by retention meanwhile must not be
        listed again, because retention deletes these files."""
        if recorded is None:
            old = TopicIndex(topic=topic)
            new = replace(old.with_written(written, topic), generation=old.generation + 1)
            self.files.put(self.layout.index_key(topic.topic), encode_index(new))
            return old, new
        if (same := recorded.with_written(written, topic)) == recorded:
            return recorded, same
        while True:
            data, old = self._read_to_change(topic.topic, manifest)
            if not {*old.files} <= {*recorded.files}:
                raise self._busy(topic.topic)
            new = replace(old.with_written(written, topic), generation=old.generation + 1)
            if self._replace_index(topic.topic, data, new):
                return old, new
            recorded = old

    def _replace_index(self, topic: str, old: bytes, new: TopicIndex) -> bool:
        """Whether `new` replaced `old` and nothing else. A store without comparison replaces unconditionally."""
        key, data = self.layout.index_key(topic), encode_index(new)
        try:
            return self.files.replace(key, old, data)
        except OverwritingStore as error:
            decided("unconditional_put", why=error.message, key=key)
            self.files.put(key, data)
            return True

    def _read_to_change(self, topic: str, manifest: ArchiveManifest | None) -> tuple[bytes, TopicIndex]:
        """Return the current index of `topic`, and the bytes."""
        key = self.layout.index_key(topic)
        if (data := self.files.get(key)) is None:
            raise ArchiveBusy(f"{self.files.url} no longer has {key}", hint="plan again")
        try:
            return data, self._parsed(topic, data, manifest)
        except BadIndex as error:
            raise DamagedArchive(f"{key} at byte {error.position}: {error}", hint="nothing was deleted") from error

    def _busy(self, topic: str) -> ArchiveBusy:
        return ArchiveBusy(
            f"{self.layout.index_key(topic)} was written by another process",
            hint="run one export into an archive at a time, then run the same command again",
        )

    def _create_manifest(self, kind: str) -> ArchiveManifest:
        """Create the manifest of a new archive. Raises `DamagedArchive` when files already exist."""
        if (
            key := next((key for key in self._keys() if self.layout.parse_file(key) or self._is_index(key)), None)
        ) is not None:
            raise DamagedArchive(
                f"{self.files.url} has files such as {key}, but no {MANIFEST_KEY} that shows their origin",
                hint="export into an empty place",
            )
        manifest = ArchiveManifest(kind=kind)
        self.files.put(MANIFEST_KEY, encode_manifest(manifest))
        return manifest

    def _indexes(self, manifest: ArchiveManifest) -> dict[str, TopicIndex]:
        indexes = {topic: self._index(topic, refuse_damage, manifest) for topic in manifest.topics}
        return {topic: index for topic, index in indexes.items() if index is not None}

    def left_alone(self) -> tuple[str, ...]:
        """Implement `ArchiveWriter.left_alone`."""
        keys = [key for key in self._keys() if self.layout.parse_file(key) and not self.layout.parse_own_file(key)]
        if not keys:
            return ()
        return (f"{_some(keys)} not from offsite: left unchanged, and not a part of the archive",)

    def _remove_unlisted(self, indexes: Mapping[str, TopicIndex]) -> None:
        """Remove unlisted files with names given by offsite. An index with missing files is no basis for deletions."""
        listed = {receipt.name for index in indexes.values() for receipt in index.files}
        expired = {
            expired_file.name for index in indexes.values() for expired_file in index.expired
        }  # retention deletes them
        keys = set(self._keys())
        unlisted = sorted(key for key in keys - listed - expired if self._is_unlisted(key, indexes))
        if unlisted and (missing := min(listed - keys, default=None)) is not None:
            raise DamagedArchive(
                f"an index lists {missing}, which {self.files.url} does not have, and no index lists its file "
                f"{unlisted[0]}",
                hint="nothing was deleted; restore the index that belongs to these files, or move the files away",
            )
        for key in unlisted:
            self.files.delete(key)

    def _is_unlisted(self, key: str, indexes: Mapping[str, TopicIndex]) -> bool:
        topic = self.layout.parse_index(key)
        return self.layout.parse_own_file(key) is not None or (topic is not None and topic not in indexes)

    def _manifest(self, on_damage: OnDamage) -> ArchiveManifest | None:
        data = self.files.get(MANIFEST_KEY)
        if data is None:
            return None
        try:
            return parse_manifest(data)
        except BadIndex as error:
            on_damage(Damage(file=MANIFEST_KEY, position=error.position, problem=str(error)))
            return None

    def _index(self, topic: str, on_damage: OnDamage, manifest: ArchiveManifest | None) -> TopicIndex | None:
        """Read an index. With a manifest, the index must exist and must not be older than the manifest."""
        key = self.layout.index_key(topic)
        data = self.files.get(key)
        if data is None:
            if manifest is not None:
                on_damage(Damage(file=key, position=0, problem=f"missing, although {MANIFEST_KEY} names the topic"))
            return None
        try:
            return self._parsed(topic, data, manifest)
        except BadIndex as error:
            on_damage(Damage(file=key, position=error.position, problem=str(error)))
            return None

    def _parsed(self, topic: str, data: bytes, manifest: ArchiveManifest | None) -> TopicIndex:
        index = parse_index(data, topic=topic, layout=self.layout)
        if manifest is not None and index.generation < manifest.generations.get(topic, 0):
            raise BadIndex(f"older than {MANIFEST_KEY}: generation {index.generation}, not as written last")
        return index

    def _by_names(self, topic: str, first_offset: FirstOffset) -> tuple[ArchiveTopic, tuple[Piece, ...]]:
        """Return a topic without an index: every partition is a piece; files are ordered by first offset, then by
        number."""
        partitions: dict[int, list[tuple[int, int, str, int]]] = {}
        for info in self.files.list(self.layout.topic_folder(topic)):
            if (name := self.layout.parse_file(info.key)) is not None:
                first = first_offset(info.key)
                start = name.start if first is None else first
                number = self.layout.file_number(info.key) or 0
                partitions.setdefault(name.partition, []).append((start, number, info.key, info.size_bytes))
        pieces = tuple(
            _whole_piece(topic, partition, sorted(partitions[partition])) for partition in sorted(partitions)
        )
        return ArchiveTopic(topic=topic, partitions=max(partitions, default=-1) + 1), pieces

    def _same_numbers(self, pieces: Iterable[Piece]) -> Iterator[str]:
        for piece in pieces:
            numbered: dict[int, list[str]] = {}
            for key in piece.files:
                if (number := self.layout.file_number(key)) is not None:
                    numbered.setdefault(number, []).append(key)
            for number, keys in numbered.items():
                if len(keys) > 1:
                    yield (
                        f"{' and '.join(keys[:2])} both have number {number} in their partition: the order comes from "
                        "their records"
                    )

    def _topics_by_name(self) -> tuple[str, ...]:
        names = (self.layout.parse_file(key) for key in self._keys())
        indexed = (self.layout.parse_index(key) for key in self._keys())
        return tuple(sorted({name.topic for name in names if name} | {topic for topic in indexed if topic}))

    def _is_index(self, key: str) -> bool:
        return self.layout.parse_index(key) is not None

    def _keys(self) -> Iterator[str]:
        return (info.key for info in self.files.list())


def _whole_piece(topic: str, partition: int, files: Sequence[tuple[int, int, str, int]]) -> Piece:
    return Piece(
        topic=topic,
        partition=partition,
        start=files[0][0],
        end=None,
        files=tuple(key for *_, key, _ in files),
        size_bytes=sum(size_bytes for *_, size_bytes in files),
    )


def _not_read(strays: Sequence[str]) -> Iterator[str]:
    if strays:
        yield (
            f"{_some(strays)} not in a folder of a topic and a partition, or have other names: these files are not read"
        )


def _uncounted(keys: Sequence[str]) -> Iterator[str]:
    """Warn of a table whose own log decides about valid files: deleted rows may still lie in the folder."""
    for folder, name in _TABLE_LOGS.items():
        if any(key.startswith(folder) for key in keys):
            yield (
                f"{folder} of {name} is not read, so deleted or changed rows of the table may be read. If the table "
                "had deletes or changes, write a copy as plain Parquet, and use the copy"
            )


def _some(keys: Sequence[str]) -> str:
    return f"{keys[0]} is" if len(keys) == 1 else f"{len(keys)} files such as {keys[0]} are"


def _name(topic: ArchiveTopic) -> str:
    return topic.topic


def _loss_sentences(indexes: Iterable[TopicIndex]) -> tuple[str, ...]:
    return tuple(
        f"{index.topic.topic}: {loss} ({records} records)" for index in indexes for loss, records in index.losses
    )
