"""A `.proto` source as registries serve it → the descriptor that the runtime of Protobuf decodes by. Pure.

Read is what says how bytes become values: messages, fields, enums, oneofs, maps and groups, in proto2, proto3 and
editions. Options, services, extensions, reserved numbers and defaults are checked for their form, and left out: they
change no value that is there. Names of types stay as written, since the runtime looks them up as protoc does. Source:
the grammar of protobuf.dev, and `descriptor.proto`.

The text is that of a stranger: bounded in length, in nesting and in names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (  # type: ignore[import-untyped]
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
    )

MAX_CHARS = 1 << 20
MAX_DEPTH = 32
"""Of messages in messages, as protoc has it."""

_TOKEN = re.compile(
    r"""[ \t\r\n\f\v]+ | //[^\n]* | /\*.*?\*/ |
    (?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*) |
    (?P<number>0[xX][0-9a-fA-F]+ | [0-9][0-9.]*(?:[eE][+-]?[0-9]+)?[fF]? | \.[0-9]+(?:[eE][+-]?[0-9]+)?[fF]?) |
    (?P<text>"(?:[^"\\\n]|\\.)*+" | '(?:[^'\\\n]|\\.)*+') |
    (?P<mark>[][{}()<>;=,.:+/-])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_SCALARS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8, "string": 9,
    "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
_GROUP = 10
_LABELS = {"optional": 1, "required": 2, "repeated": 3}
_EDITIONS = {"2023": 1000, "2024": 1001}
_END = ("end", "")


class BadProto(ValueError):
    """The text is no source of Protobuf that can be read here."""


def parse_proto(text: str, *, name: str) -> FileDescriptorProto:
    """The descriptor of the file `name`. Raises `BadProto`."""
    return _parser(text, name).file()


def proto_meaning(text: str) -> tuple[bytes, tuple[str, ...]]:
    """The descriptor, and what it leaves out and consumers see: defaults, and extensions of messages. Two texts with
    the same meaning are equal here, whatever their blanks and comments. Raises `BadProto`."""
    parser = _parser(text, "")
    return parser.file().SerializeToString(deterministic=True), tuple(sorted(parser.left_out))


def _parser(text: str, name: str) -> _Parser:
    if len(text) > MAX_CHARS:
        raise BadProto(f"a schema of {len(text)} characters")
    return _Parser(text, name)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.end() == position:
            raise BadProto(f"character {position} cannot be read")
        position = match.end()
        if match.lastgroup:
            yield match.lastgroup, match.group()
    while True:
        yield _END


class _Parser:
    """One pass, one token ahead."""

    def __init__(self, text: str, name: str) -> None:
        from google.protobuf import descriptor_pb2  # type: ignore[import-untyped]

        self._kinds = descriptor_pb2
        self._file = descriptor_pb2.FileDescriptorProto(name=name)
        self._tokens = _tokens(text)
        self._token = next(self._tokens)
        self._delimited = False
        self.left_out: list[str] = []

    def file(self) -> FileDescriptorProto:  # noqa: C901, PLR0912  # a case for each statement of the grammar
        file = self._file
        while self._token != _END:
            match self._word():
                case ("syntax" | "edition") as kind if self._token == ("mark", "="):
                    self._expect("=")
                    self._version(kind, self._string())
                    self._expect(";")
                case "package":
                    file.package = self._name()
                    self._expect(";")
                case "import":
                    if self._token[0] == "name":
                        self._next()  # public, weak, option: the runtime sees every file of its pool
                    imported = self._string()
                    if imported not in file.dependency:
                        file.dependency.append(imported)
                    self._expect(";")
                case "message":
                    self._message(file.message_type.add(), 1)
                case "enum":
                    self._enum(file.enum_type.add())
                case "option":
                    self._option(file)
                case "service":
                    self._name()
                    self._skip_block()
                case "extend":
                    self._extension(file.package)
                case "":
                    pass
                case word:
                    self._refuse(word)
        return file

    def _version(self, kind: str, version: str) -> None:
        if kind == "edition" and version in _EDITIONS:
            self._file.syntax, self._file.edition = "editions", _EDITIONS[version]
        elif kind == "syntax" and version == "proto3":
            self._file.syntax = version
        elif kind != "syntax" or version != "proto2":  # which is what a descriptor without a syntax means
            raise BadProto(f"{kind} {version[:20]!r}")

    # -- messages ------------------------------------------------------------------------------------------------------

    def _message(self, message: DescriptorProto, depth: int, name: str = "") -> None:
        if depth > MAX_DEPTH:
            raise BadProto(f"messages nest deeper than {MAX_DEPTH}")
        message.name = name or self._simple_name()
        self._expect("{")
        while not self._took("}"):
            self._member(message, depth)
        self._close_optional(message)

    def _member(self, message: DescriptorProto, depth: int) -> None:  # noqa: PLR0911  # as above
        word = self._word()
        if self._token[0] == "name" or word in {"option", "reserved", "extensions", "map", ""}:
            match word:
                case "message":
                    return self._message(message.nested_type.add(), depth + 1)
                case "enum":
                    return self._enum(message.enum_type.add())
                case "oneof":
                    return self._oneof(message, depth)
                case "extend":
                    return self._extension(message.name)
                case "option":
                    return self._option(message)
                case "reserved" | "extensions" if self._token[0] != "name" or word == "reserved":
                    return self._skip_statement()
                case "map" if self._token == ("mark", "<"):
                    return self._map(message)
                case "":
                    return None
        return self._field(message, word, depth)

    def _oneof(self, message: DescriptorProto, depth: int) -> None:
        number = len(message.oneof_decl)
        message.oneof_decl.add(name=self._simple_name())
        self._expect("{")
        while not self._took("}"):
            word = self._word()
            if word == "option":
                self._option(None)
            elif word:
                self._field(message, word, depth, oneof=number)

    def _field(self, message: DescriptorProto, word: str, depth: int, oneof: int | None = None) -> None:
        label = _LABELS.get(word) if self._token[0] == "name" or self._token == ("mark", ".") else None
        kind = word if label is None else self._type()
        field = message.field.add(label=label or 1)
        if oneof is not None:
            field.oneof_index = oneof
        name = self._simple_name()
        self._expect("=")
        field.number = self._number()
        if kind == "group":
            field.name, field.type, field.type_name = name.lower(), _GROUP, name
            self._options_of(field)
            return self._message(message.nested_type.add(), depth + 1, name)
        field.name = name
        self._set_type(field, kind)
        if label == 1 and self._file.syntax == "proto3":
            field.proto3_optional = True
        if default := self._options_of(field):
            self.left_out.append(f"default of {message.name}.{name}: {default}")
        self._expect(";")
        return None

    def _set_type(self, field: FieldDescriptorProto, kind: str) -> None:
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            field.type_name = kind

    def _map(self, message: DescriptorProto) -> None:
        """A map is a repeated message of keys and values, whose name follows from the field's."""
        self._expect("<")
        key = self._word()
        self._expect(",")
        value = self._type()
        self._expect(">")
        name = self._simple_name()
        self._expect("=")
        entry = message.nested_type.add(name=_camel(name) + "Entry")
        entry.options.map_entry = True
        for number, (part, kind) in enumerate((("key", key), ("value", value)), start=1):
            self._set_type(entry.field.add(name=part, number=number, label=1), kind)
        field = message.field.add(name=name, number=self._number(), label=3, type_name=entry.name)
        self._options_of(field)
        self._expect(";")

    def _close_optional(self, message: DescriptorProto) -> None:
        """An optional field of proto3 is alone in a oneof, behind those that are written."""
        names = {field.name for field in message.field} | {oneof.name for oneof in message.oneof_decl}
        for field in message.field:
            if field.proto3_optional:
                name = f"_{field.name}"
                while name in names:
                    name = f"X{name}"
                names.add(name)
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=name)

    def _enum(self, enum: EnumDescriptorProto) -> None:
        enum.name = self._simple_name()
        self._expect("{")
        while not self._took("}"):
            word = self._word()
            if word == "option" and self._token != ("mark", "="):
                self._option(enum)
            elif word == "reserved" and self._token != ("mark", "="):
                self._skip_statement()
            elif word:
                self._expect("=")
                enum.value.add(name=word, number=self._number())
                self._options_of(None)
                self._expect(";")

    # -- options -------------------------------------------------------------------------------------------------------

    def _option(self, owner: object) -> None:
        """`option name = value;`. Of all options, these change what a descriptor may be, or how bytes are read."""
        name, value = self._option_pair()
        self._expect(";")
        if name == "allow_alias" and value == "true" and isinstance(owner, self._kinds.EnumDescriptorProto):
            owner.options.allow_alias = True
        if name == "message_set_wire_format" and value == "true":
            raise BadProto("message sets are not read")
        if name == "features.message_encoding" and owner is self._file:
            self._delimited = value == "DELIMITED"

    def _options_of(self, field: FieldDescriptorProto | None) -> str:
        """`[name = value, …]`, where it stands. Returns the default, empty without one."""
        default = ""
        delimited = self._delimited and field is not None and self._file.syntax == "editions"
        if self._took("["):
            while True:
                name, value = self._option_pair()
                if name == "features.message_encoding":
                    delimited = value == "DELIMITED"
                default = value if name == "default" else default
                if self._took("]"):
                    break
                self._expect(",")
        if delimited and field is not None and field.type_name:
            field.options.features.message_encoding = self._kinds.FeatureSet.DELIMITED
        return default

    def _option_pair(self) -> tuple[str, str]:
        name = []
        while self._token not in {("mark", "="), _END, ("mark", ";")}:
            name.append(self._next())
        self._expect("=")
        if self._token == ("mark", "{"):
            self._skip_block()
            return "".join(name), ""
        sign = self._next() if self._token in {("mark", "-"), ("mark", "+")} else ""
        value = sign + self._next()
        while self._token[0] == "text":
            value += self._next()
        return "".join(name), value

    def _extension(self, owner: str) -> None:
        """Fields of a message of others. Those of options change no value."""
        extended = self._type()
        block = self._skip_block()
        if not extended.removeprefix(".").startswith("google.protobuf."):
            self.left_out.append(f"extension of {extended} in {owner}: {block}")

    def _skip_block(self) -> str:
        """Everything from `{` to its `}`, which is returned."""
        self._expect("{")
        depth, words = 1, list[str]()
        while depth:
            if self._token == _END:
                raise BadProto("the text ends inside of a block")
            depth += {"{": 1, "}": -1}.get(self._token[1], 0) if self._token[0] == "mark" else 0
            words.append(self._next())
        return " ".join(words)

    def _skip_statement(self) -> None:
        while not self._took(";"):
            if self._token == _END:
                raise BadProto("the text ends inside of a statement")
            self._next()

    # -- tokens --------------------------------------------------------------------------------------------------------

    def _next(self) -> str:
        text = self._token[1]
        if self._token == _END:
            raise BadProto("the text ends too early")
        self._token = next(self._tokens)
        return text

    def _took(self, mark: str) -> bool:
        if self._token != ("mark", mark):
            return False
        self._next()
        return True

    def _expect(self, mark: str) -> None:
        if not self._took(mark):
            self._refuse(self._token[1])

    def _word(self) -> str:
        """A name, or empty for a lone `;`."""
        if self._took(";"):
            return ""
        return self._type()

    def _type(self) -> str:
        root = "." if self._took(".") else ""
        return root + self._name()

    def _name(self) -> str:
        if self._token[0] != "name":
            self._refuse(self._token[1])
        return self._next()

    def _simple_name(self) -> str:
        name = self._name()
        if "." in name:
            self._refuse(name)
        return name

    def _string(self) -> str:
        parts = []
        while self._token[0] == "text":
            parts.append(self._next()[1:-1])
        if not parts or any("\\" in part for part in parts):
            self._refuse(self._token[1])
        return "".join(parts)

    def _number(self) -> int:
        sign = -1 if self._took("-") else 1
        kind, text = self._token
        try:
            number = int(text, 8 if text.isdigit() and text.startswith("0") and len(text) > 1 else 0)
        except ValueError:
            number = 1 << 40
        if kind != "number" or number > 1 << 31:
            self._refuse(text)
        self._next()
        return sign * number

    def _refuse(self, text: str) -> NoReturn:
        raise BadProto(f"{text[:40]!r} stands where it cannot")


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
