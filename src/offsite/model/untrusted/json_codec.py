"""The JSON form of a dataclass, declared by the annotations of the fields: one declaration both reads and writes. Pure.

The type of a field decides its form: `str`, `int` (of 64 bits), `float`, `bool`, a `StrEnum`, a dataclass (an object),
`tuple[X, ...]` of texts, integers or dataclasses (a list), `tuple[tuple[str, X], ...]` (an object, as pairs sorted by
name), and `X | None` (null, or a missing member). A narrower form stands in the annotation, such as `Count` or `Later`.
Reading goes through `JsonObject`, which finds the wrong member and says what is wrong. A list may be missing, because
earlier writers left out empty lists. Members without a field are ignored: later versions add some.

Fields are read in their order in the class: the first wrong one is reported. What `First` says is checked before.

At first use two functions are compiled for a class, as `dataclass` compiles its `__init__`: commits are read by the
hundred thousand entries, and a loop over the fields takes a sixth longer to read, and half as long again to write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum, StrEnum
from functools import cached_property, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from offsite.model.bounds import MAX_COMMIT_TIME_MS
from offsite.model.untrusted.json_object import JsonObject, JsonValue

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Form:
    """How a field is read from the member of that name, and written. Without `write` the value is written as it is."""

    read: Callable[[JsonObject, str], object]
    write: Callable[[Any], JsonValue] | None = None


@dataclass(frozen=True, slots=True)
class First:
    """What is checked of the member of that name before any field is read."""

    check: Callable[[JsonObject, str], object]


@dataclass(frozen=True, slots=True)
class Key:
    """The name of the member, if the field has another name."""

    name: str


@dataclass(frozen=True, slots=True)
class Beside:
    """The field is only stored where the field `other` is not None, and else has its default."""

    other: str


class Rule(Enum):
    """`LATER`: the member may be missing, which gives the field's default. `NULL`: null gives the default, too.
    `SPARE`: the default is not written. `INLINE`: the members of the field's object stand in the surrounding object.
    `UNSTORED`: the field is not stored, and has its default when read."""

    LATER = "later"
    NULL = "null"
    SPARE = "spare"
    INLINE = "inline"
    UNSTORED = "unstored"


Later = Annotated[T, Rule.LATER]
"""The field was added later: objects of earlier versions lack the member."""
Spare = Annotated[T, Rule.LATER, Rule.SPARE]
"""As `Later`, and only written if it is not the default: old objects keep their bytes."""
Nullable = Annotated[T, Rule.LATER, Rule.NULL]
"""As `Later`, and null gives the default, too."""
Inline = Annotated[T, Rule.INLINE]
Unstored = Annotated[T, Rule.UNSTORED]
ObjectFirst = Annotated[T, First(JsonObject.child)]
"""The member is an object, which is checked before any field is read."""
OptionalFirst = Annotated[T | None, First(JsonObject.optional_child)]


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


class JsonCodec(Generic[T]):
    """Reads and writes the dataclass `kind`. Annotations are evaluated at first use. `early`: the names of fields that
    are read before the others, where the order of the class is not that of the reader.

    `read`: read the value from a `JsonObject`. Raises the error of the object for a member that is missing or wrong.
    `write`: return the members of the value's object, in the order of the fields.
    """

    def __init__(self, kind: type[T], *, early: Sequence[str] = ()) -> None:
        self._kind, self._early = kind, early

    @cached_property
    def read(self) -> Callable[[JsonObject], T]:
        names: dict[str, object] = {"kind": self._kind}
        checks, reads = [], []
        for number, member in enumerate(sorted(self._members, key=self._turn)):
            names |= {f"read{number}": member.form.read, f"default{number}": member.default}
            reading = f"read{number}(document, {member.key!r})"
            if member.beside is not None:
                reading = f"default{number} if fields.get({member.beside!r}) is None else {reading}"
            elif Rule.NULL in member.rules:
                reading = f"default{number} if fields.get({member.key!r}) is None else {reading}"
            elif Rule.LATER in member.rules:
                reading = f"{reading} if {member.key!r} in fields else default{number}"
            reads.append(f"{member.name}={reading}")
            if member.first is not None:
                names[f"first{number}"] = member.first
                checks.append(f"first{number}(document, {member.key!r})")
        lines = ["fields = document.fields", *checks, f"return kind({', '.join(reads)})"]
        return _compiled(f"read_{self._kind.__name__}", "document", lines, names)

    @cached_property
    def write(self) -> Callable[[T], dict[str, JsonValue]]:
        names: dict[str, object] = {}
        writes = []
        for number, member in enumerate(self._members):
            names |= {f"write{number}": member.form.write, f"default{number}": member.default}
            content = f"value.{member.name}"
            written = content if member.form.write is None else f"write{number}({content})"
            if Rule.INLINE in member.rules:
                writes.append(f"**{written}")
            elif member.beside is not None:
                writes.append(f"**({{}} if value.{member.beside} is None else {{{member.key!r}: {written}}})")
            elif Rule.SPARE in member.rules:
                writes.append(f"**({{}} if {content} == default{number} else {{{member.key!r}: {written}}})")
            else:
                writes.append(f"{member.key!r}: {written}")
        return _compiled(f"write_{self._kind.__name__}", "value", [f"return {{{', '.join(writes)}}}"], names)

    def _turn(self, member: _Member) -> int:
        return self._early.index(member.name) if member.name in self._early else len(self._early)

    @cached_property
    def _members(self) -> tuple[_Member, ...]:
        hints = get_type_hints(self._kind, include_extras=True)
        declared: Sequence[Field[Any]] = fields(self._kind)  # type: ignore[arg-type]  # a dataclass
        return tuple(_stored_members((field.name, hints[field.name], _default_of(field)) for field in declared))


def _default_of(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _compiled(name: str, parameter: str, lines: Sequence[str], names: dict[str, object]) -> Callable[[Any], Any]:
    """Compile a function. Nothing but names of our own classes is in its text: every value is in `names`."""
    exec(f"def {name}({parameter}):\n " + "\n ".join(lines), names)  # noqa: S102
    return names[name]  # type: ignore[return-value]  # the function


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    """A stored field: `key` is the name of the member, `first` is checked before any member is read, `beside`: see
    `Beside`."""

    name: str
    key: str
    form: Form
    first: Callable[[JsonObject, str], object] | None
    beside: str | None
    default: object
    rules: frozenset[object]


_CODECS: dict[type[Any], JsonCodec[Any]] = {}


def codec_of(kind: type[T]) -> JsonCodec[T]:
    """The codec of a class: one for all objects that hold one."""
    return _CODECS.setdefault(kind, JsonCodec(kind))


def _stored_members(declared: Iterable[tuple[str, Any, object]]) -> Iterator[_Member]:
    for name, hint, default in declared:
        marks: Sequence[object] = hint.__metadata__ if get_origin(hint) is Annotated else ()
        rules = frozenset(mark for mark in marks if isinstance(mark, Rule))
        if Rule.UNSTORED in rules:
            continue
        if Rule.LATER in rules and default is MISSING:
            raise TypeError(f"field {name!r} has no default for objects without it")
        yield _Member(
            name=name,
            key=next((mark.name for mark in marks if isinstance(mark, Key)), name),
            form=_inlined(hint) if Rule.INLINE in rules else _form(hint),
            first=next((mark.check for mark in marks if isinstance(mark, First)), None),
            beside=next((mark.other for mark in marks if isinstance(mark, Beside)), None),
            default=default,
            rules=rules,
        )


def _inlined(hint: Any) -> Form:  # noqa: ANN401  # any annotation
    if (form := _marked_form(hint)) is not None:
        return form
    inner = codec_of(get_args(hint)[0])
    return Form(lambda document, _: inner.read(document), inner.write)


def _marked_form(hint: Any) -> Form | None:  # noqa: ANN401  # any annotation
    return next((mark for mark in hint.__metadata__ if isinstance(mark, Form)), None)


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
        return _marked_form(hint) or _form(arguments[0])
    if origin in {Union, UnionType} and len(arguments) == 2 and NoneType in arguments:
        return _optional(_form(next(argument for argument in arguments if argument is not NoneType)))
    if origin is tuple and len(arguments) == 2 and arguments[1] is ...:
        return _listed(arguments[0])
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return Form(partial(_read_choice, kind=hint), lambda choice: choice.value)
    if is_dataclass(hint) and isinstance(hint, type):
        inner = codec_of(hint)
        return Form(lambda document, name: inner.read(document.child(name)), inner.write)
    raise TypeError(f"{hint} has no JSON form")


def _listed(element: Any) -> Form:  # noqa: ANN401  # any annotation
    """The form of `tuple[element, ...]`: of pairs an object, else a list of objects."""
    if get_origin(element) is tuple and get_args(element)[0] is str and len(get_args(element)) == 2:
        return _mapped(_form(get_args(element)[1]))
    if not is_dataclass(element) or not isinstance(element, type):
        raise TypeError(f"a list of {element} has no JSON form")
    inner = codec_of(element)
    return Form(
        lambda document, name: tuple(map(inner.read, document.children(name))),
        lambda elements: [inner.write(element) for element in elements],
    )


def _mapped(form: Form) -> Form:
    def read(document: JsonObject, name: str) -> object:
        child = document.child(name)
        return tuple((key, form.read(child, key)) for key in child.names(name))

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
