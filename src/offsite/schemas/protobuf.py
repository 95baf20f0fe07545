"""Values of Protobuf by the sources that a registry keeps: which message a payload holds, and its value.

Each schema has a pool of its own, since versions of a schema name the same messages. The runtime of Protobuf decodes
(upb, in C): it refuses messages that nest deeper than 100, and what a payload expands to stays in proportion. It is
imported on use.

Behind the five bytes of the prefix, a payload says by indexes which message of the file it is: `[1, 0]` is the first
message in the second one. They count the messages of the source, without those that maps are made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from offsite.model.schema_registry import RegistrySnapshot, StoredSchema
from offsite.schemas.proto_text import BadProto, parse_proto

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor  # type: ignore[import-untyped]
    from google.protobuf.descriptor_pb2 import (  # type: ignore[import-untyped]
        DescriptorProto,
        FileDescriptorProto,
    )
    from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]
    from google.protobuf.message import Message  # type: ignore[import-untyped]

_WELL_KNOWN = {
    f"google/protobuf/{name}.proto": f"google.protobuf.{name}_pb2"
    for name in (
        "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
        "wrappers",
    )
}  # fmt: skip
"""Files that come with every compiler, so that no registry has them."""
FILES_MAX = 1_000
_INDEXES_MAX = 32
_VARINT_BYTES_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufValue:
    """`message`: its full name. `value`: plain Python; fields by their names in the source, enums as names. `is_whole`:
    the schema names every field that the payload has, and the payload has those that the schema requires."""

    message: str
    value: Mapping[str, object]
    is_whole: bool


class ProtobufTypes:
    """The messages of one schema."""

    def __init__(self, pool: DescriptorPool, file: FileDescriptorProto) -> None:
        self._pool, self._file = pool, file
        self._classes: dict[tuple[int, ...], type[Message] | None] = {}

    @property
    def first(self) -> str:
        """The full name of the first message, after which a subject may be named; empty without one."""
        message_class = self._class((0,))
        return message_class.DESCRIPTOR.full_name if message_class is not None else ""

    def read(self, data: bytes, start: int) -> ProtobufValue | None:
        """The value of `data` from `start` on, where the indexes begin; None where no message of the schema is there,
        or its bytes are none of that message."""
        message = self._message(data, start)
        if message is None:
            return None
        return ProtobufValue(message=message.DESCRIPTOR.full_name, value=_plain(message), is_whole=_is_whole(message))

    def fits(self, data: bytes, start: int) -> bool:
        """Whether `read` gives a whole value, ten times as fast."""
        message = self._message(data, start)
        return message is not None and _is_whole(message)

    def _message(self, data: bytes, start: int) -> Message | None:
        from google.protobuf.message import DecodeError

        indexes, position = _indexes(data, start)
        message_class = self._class(indexes) if indexes else None
        if message_class is None:
            return None
        try:
            return message_class.FromString(data[position:])
        except (DecodeError, UnicodeDecodeError):
            return None

    def _class(self, indexes: tuple[int, ...]) -> type[Message] | None:
        if indexes not in self._classes:
            self._classes[indexes] = self._find(indexes)
        return self._classes[indexes]

    def _find(self, indexes: tuple[int, ...]) -> type[Message] | None:
        from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]

        names, messages = [self._file.package] if self._file.package else [], _of_source(self._file.message_type)
        for index in indexes:
            if index >= len(messages):
                return None
            names.append(messages[index].name)
            messages = _of_source(messages[index].nested_type)
        message_class: type[Message] = GetMessageClass(self._pool.FindMessageTypeByName(".".join(names)))
        return message_class


def protobuf_types(snapshot: RegistrySnapshot, schema: StoredSchema) -> ProtobufTypes | None:
    """The types of `schema`, whose references are in `snapshot`; None for a schema that no compiler would take, or that
    uses what the snapshot lacks."""
    from google.protobuf.descriptor_pool import DescriptorPool

    schemas = snapshot.with_references(schema)
    if len(schemas) > FILES_MAX:
        return None
    names = {(used.context, used.id): f"{used.context}/{used.id}.proto" for used in schemas}
    pool = DescriptorPool()
    added = set[str]()
    file: FileDescriptorProto | None = None
    try:
        for used in schemas:
            file = parse_proto(used.text, name=names[used.context, used.id])
            paths = {
                part.name: names[target.context, target.id]
                for part in used.references
                if (target := snapshot.by_version.get((part.subject, part.version))) is not None
                and (target.context, target.id) in names
            }
            _import(file, paths, pool, added)
            pool.AddSerializedFile(file.SerializeToString())
        if file is None:
            return None
        _make_classes(pool, file)
    except (BadProto, TypeError, ValueError, KeyError, RecursionError):  # of the pool: its records stay bytes
        return None
    return ProtobufTypes(pool, file)


def _make_classes(pool: DescriptorPool, file: FileDescriptorProto) -> None:
    """Make the classes of all messages. The runtime does so by recursion, through all messages that use one another: in
    a thread of its own, so that what it can make depends on no caller's stack. Raises `RecursionError`."""
    from google.protobuf.message_factory import GetMessageClass

    def make() -> None:
        pending = [(file.package, message) for message in file.message_type]
        while pending:
            scope, message = pending.pop()
            name = f"{scope}.{message.name}" if scope else message.name
            GetMessageClass(pool.FindMessageTypeByName(name))
            pending += [(name, nested) for nested in message.nested_type]

    with ThreadPoolExecutor(1, thread_name_prefix="protobuf") as thread:
        thread.submit(make).result()


def _import(file: FileDescriptorProto, paths: Mapping[str, str], pool: DescriptorPool, added: set[str]) -> None:
    """Name the imports of `file` as the pool does. What neither the registry nor a compiler has can only be of options,
    or the pool misses it."""
    imported = [paths.get(path, path) for path in file.dependency if path in paths or path in _WELL_KNOWN]
    for path in imported:
        if path in _WELL_KNOWN:
            _add_well_known(path, pool, added)
    del file.dependency[:]
    file.dependency.extend(dict.fromkeys(imported))
    file.public_dependency.extend(range(len(file.dependency)))


def _add_well_known(path: str, pool: DescriptorPool, added: set[str]) -> None:
    if path not in added:
        added.add(path)
        descriptor = import_module(_WELL_KNOWN[path]).DESCRIPTOR
        for used in descriptor.dependencies:
            _add_well_known(used.name, pool, added)
        pool.AddSerializedFile(descriptor.serialized_pb)


def _of_source(messages: Sequence[DescriptorProto]) -> list[DescriptorProto]:
    return [message for message in messages if not message.options.map_entry]


def _indexes(data: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """The indexes, and where the message begins; none where no indexes are. A count of zero stands for the first
    message."""
    count, position = _zigzag(data, start)
    if count == 0:
        return (0,), position
    indexes = []
    for _ in range(min(count, _INDEXES_MAX + 1)):
        index, position = _zigzag(data, position)
        if index < 0:
            return (), position
        indexes.append(index)
    return (tuple(indexes) if count <= _INDEXES_MAX else ()), position


def _zigzag(data: bytes, position: int) -> tuple[int, int]:
    """The number at `position` and the place behind it; -1 where none is. Numbers below zero are no indexes."""
    number = 0
    for shift, byte in enumerate(data[position : position + _VARINT_BYTES_MAX]):
        number |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return (number >> 1) if number & 1 == 0 else -1, position + shift + 1
    return -1, position


def _plain(message: Message) -> dict[str, object]:
    """The fields that are there, and those whose absence means a value (numbers and texts of proto3)."""
    present = {field.name: _value(field, value) for field, value in message.ListFields()}
    for field in message.DESCRIPTOR.fields:
        if field.name not in present and not field.has_presence and not _is_repeated(field):
            present[field.name] = _value(field, field.default_value)
    return {field.name: present[field.name] for field in message.DESCRIPTOR.fields if field.name in present}


def _value(field: FieldDescriptor, value: Any) -> object:  # noqa: ANN401  # what the runtime gives for the field
    if _is_map(field):
        entry = field.message_type.fields_by_name["value"]
        return {str(key): _single(entry, value[key]) for key in value}
    if _is_repeated(field):
        return [_single(field, element) for element in value]
    return _single(field, value)


def _single(field: FieldDescriptor, value: Any) -> object:  # noqa: ANN401  # as above
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return named.name if named is not None else value
    return _plain(value) if field.message_type is not None else value


def _is_repeated(field: FieldDescriptor) -> bool:
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def _is_map(field: FieldDescriptor) -> bool:
    kind: Descriptor | None = field.message_type
    return kind is not None and kind.GetOptions().map_entry


def _is_whole(message: Message) -> bool:
    return message.IsInitialized() and not _has_unknown_fields(message)


def _has_unknown_fields(message: Message) -> bool:
    from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]

    return len(UnknownFieldSet(message)) > 0 or any(map(_has_unknown_fields, _children(message)))


def _children(message: Message) -> Iterator[Message]:
    for field, value in message.ListFields():
        if _is_map(field):
            if field.message_type.fields_by_name["value"].message_type is not None:
                yield from value.values()
        elif field.message_type is not None:
            yield from value if _is_repeated(field) else (value,)
