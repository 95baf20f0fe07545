"""`sasl.jaas.config`: one login module with its options, as Kafka's clients take it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from offsite.model.errors import BadKafkaConfig

_OPTION = re.compile(r"""\s*([\w.-]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s;"']+))""", re.DOTALL)
_HEAD = re.compile(r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)", re.IGNORECASE)
_END = re.compile(r"\s*;?\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginModule:
    """`name` is the class without its package. Options hold secrets, so they are never printed."""

    name: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name!r}, options {sorted(self.options)})"


def parse_jaas(text: str) -> LoginModule:
    """Raises `BadKafkaConfig`, without the text in it: it holds a password."""
    head = _HEAD.match(text)
    if head is None:
        raise BadKafkaConfig("sasl.jaas.config is not `<login module> required <options>;`", hint=_HINT)
    options, position = dict[str, str](), head.end()
    while option := _OPTION.match(text, position):
        quoted = option[2] if option[2] is not None else option[3]
        options[option[1]] = option[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        position = option.end()
    if not _END.fullmatch(text, position):
        raise BadKafkaConfig(f"sasl.jaas.config cannot be read from character {position + 1} on", hint=_HINT)
    return LoginModule(name=head[1].rpartition(".")[2], options=options)


_HINT = 'write it as: …PlainLoginModule required username="me" password="secret";'
