"""The JSON form of a dataclass, declared by the annotations of the fields: one declaration both reads and writes. Pure.

The type of a field decides its form: `str`, `int` (of 64 bits), `float`, `bool`, a `StrEnum`, a dataclass (an object),
`tuple[X, ...]` of texts, integers or dataclasses (a list), `tuple[tuple[str, X], ...]` (an object, as pairs sorted by
name), and `X | None` (null, or a missing member). A narrower form stands in the annotation, such as `Count` or `Later`.
Reading goes through `JsonObject`, which finds the wrong member and says what is wrong. A list may be missing, because
earlier writers left out empty lists. Members without a field are ignored: later versions add some.

Fields are read in their order in the class: the first wrong one is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum, StrEnum
from functools import cached_property, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from offsite.model.bounds import MAX_COMMIT_TIME_MS
from offsite.model.untrusted.json_object import JsonObject, JsonValue

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Form:
    """How a field is read from the member of that name, and written. Without `write` the value is written as it is."""

    read: Callable[[JsonObject, str], object]
    write: Callable[[Any], JsonValue] | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """The name of the member, if the field has another name."""

    name: str


class Rule(Enum):
    """`LATER`: the member may be missing, which gives the field's default. `NULL`: null gives the default, too.
    `SPARE`: the default is not written. `INLINE`: the members of the field's object stand in the surrounding object."""

    LATER = "later"
    NULL = "null"
    SPARE = "spare"
    INLINE = "inline"


Later = Annotated[T, Rule.LATER]
"""The field was added later: objects of earlier versions lack the member."""
Spare = Annotated[T, Rule.LATER, Rule.SPARE]
"""As `Later`, and only written if it is not the default: old objects keep their bytes."""
Nullable = Annotated[T, Rule.LATER, Rule.NULL]
"""As `Later`, and null gives the default, too."""
Inline = Annotated[T, Rule.INLINE]


def integer_within(least: int, most: int) -> Form:
    """An integer from `least` to `most`, both inclusive."""
    return Form(partial(JsonObject.integer, least=least, most=most))


def text_up_to(chars: int, *, on_read: bool = True, on_write: bool = True) -> Form:
    """A text of which only the first `chars` characters are read, or written."""
    return Form(
        (lambda document, name: document.text(name)[:chars]) if on_read else JsonObject.text,
        (lambda text: text[:chars]) if on_write else None,
    )


Count = Annotated[int, Form(JsonObject.count)]
"""An offset, a number of things, or a size: not below 0."""
TimeMs = Annotated[int, integer_within(0, MAX_COMMIT_TIME_MS)]
PartitionNumber = Annotated[int, Form(JsonObject.partition)]
TopicName = Annotated[str, Form(JsonObject.topic)]


class _Member(NamedTuple):
    """A field's name; the member's name; how it is read and written; the default that is not written; and whether the
    members of an object stand in place of the member."""

    name: str
    key: str
    read: Callable[[JsonObject, str], object]
    write: Callable[[Any], JsonValue] | None
    spared: object
    is_inline: bool


class JsonCodec(Generic[T]):
    """Reads and writes the dataclass `kind`. Annotations are evaluated at first use."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind

    def read(self, document: JsonObject) -> T:
        """Read the value. Raises the error of `document` for a member that is missing or wrong."""
        return self._kind(**{name: read(document, key) for name, key, read, _, _, _ in self._members})

    def write(self, value: T) -> dict[str, JsonValue]:
        """Return the members of the value's object, in the order of the fields."""
        members: dict[str, JsonValue] = {}
        for name, key, _, write, spared, is_inline in self._members:
            content = getattr(value, name)
            if content == spared:
                continue
            written: Any = content if write is None else write(content)
            members.update(written if is_inline else {key: written})
        return members

    @cached_property
    def _members(self) -> tuple[_Member, ...]:
        hints = get_type_hints(self._kind, include_extras=True)
        defaults = {field.name: field.default for field in fields(self._kind)}  # type: ignore[arg-type]  # a dataclass
        return tuple(_member(name, hints[name], default) for name, default in defaults.items())


_CODECS: dict[type[Any], JsonCodec[Any]] = {}


def _inner(kind: type[Any]) -> JsonCodec[Any]:
    return _CODECS.setdefault(kind, JsonCodec(kind))


_NOTHING_SPARED = object()


def _member(name: str, hint: Any, default: object) -> _Member:  # noqa: ANN401  # any annotation
    marks: Sequence[object] = hint.__metadata__ if get_origin(hint) is Annotated else ()
    key = next((mark.name for mark in marks if isinstance(mark, Key)), name)
    is_inline = Rule.INLINE in marks
    form = _inlined(get_args(hint)[0]) if is_inline else _form(hint)
    if Rule.LATER in marks:
        if default is MISSING:
            raise TypeError(f"field {name!r} has no default for objects without it")
        form = _later(form, default, nullable=Rule.NULL in marks)
    spared = default if Rule.SPARE in marks else _NOTHING_SPARED
    return _Member(name, key, form.read, form.write, spared, is_inline)


def _later(form: Form, default: object, *, nullable: bool) -> Form:
    def read(document: JsonObject, name: str) -> object:
        missing = document.fields.get(name) is None if nullable else name not in document.fields
        return default if missing else form.read(document, name)

    return Form(read, form.write)


def _inlined(kind: type[Any]) -> Form:
    inner = _inner(kind)
    return Form(lambda document, _: inner.read(document), inner.write)


_PLAIN: Mapping[object, Form] = {
    str: Form(JsonObject.text),
    int: Form(JsonObject.integer),
    float: Form(JsonObject.number),
    bool: Form(JsonObject.flag),
    tuple[str, ...]: Form(JsonObject.texts, list),
    tuple[int, ...]: Form(JsonObject.integers, list),
}


def _form(hint: Any) -> Form:  # noqa: ANN401  # any annotation
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        forms = [mark for mark in hint.__metadata__ if isinstance(mark, Form)]
        return forms[0] if forms else _form(arguments[0])
    if origin in {Union, UnionType} and len(arguments) == 2 and NoneType in arguments:
        return _optional(_form(next(argument for argument in arguments if argument is not NoneType)))
    if origin is tuple and len(arguments) == 2 and arguments[1] is ...:
        return _listed(arguments[0])
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return Form(partial(_read_choice, kind=hint), lambda choice: choice.value)
    if is_dataclass(hint) and isinstance(hint, type):
        inner = _inner(hint)
        return Form(lambda document, name: inner.read(document.child(name)), inner.write)
    raise TypeError(f"{hint} has no JSON form")


def _listed(element: Any) -> Form:  # noqa: ANN401  # any annotation
    """The form of `tuple[element, ...]`: of pairs an object, else a list of objects."""
    if get_origin(element) is tuple and get_args(element)[0] is str and len(get_args(element)) == 2:
        return _mapped(_form(get_args(element)[1]))
    if not is_dataclass(element) or not isinstance(element, type):
        raise TypeError(f"a list of {element} has no JSON form")
    inner = _inner(element)
    return Form(
        lambda document, name: tuple(map(inner.read, document.children(name))),
        lambda elements: [inner.write(element) for element in elements],
    )


def _mapped(form: Form) -> Form:
    def read(document: JsonObject, name: str) -> object:
        child = document.child(name)
        return tuple((key, form.read(child, key)) for key in sorted(child.fields))

    write = form.write
    return Form(read, dict if write is None else lambda pairs: {key: write(value) for key, value in pairs})


def _optional(form: Form) -> Form:
    write = form.write
    return Form(
        lambda document, name: None if document.fields.get(name) is None else form.read(document, name),
        None if write is None else lambda value: None if value is None else write(value),
    )


def _read_choice(document: JsonObject, name: str, *, kind: type[StrEnum]) -> StrEnum:
    return document.member(name, kind)
