"""Options shared by several commands, written once: same name, same environment variable, same help. Several options
are fields of a dataclass, which a command takes as one value.

A field may also hold the words of a use (a `TypedDict`, see `model/options.py`): every word becomes an option.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from enum import StrEnum
from functools import wraps
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints, is_typeddict

import typer

from offsite.cli.logs import keyword_parameter, keyword_parameters, with_parameters
from offsite.cli.output import OutputFormat
from offsite.model.errors import BadOption
from offsite.model.options import DeclaredOption, declared_options
from offsite.model.selection import PATTERN_OPTIONS, split_all
from offsite.model.untrusted.place import parse_place

PlaceT = TypeVar("PlaceT", str, list[str], None)

COLLECT_AFTER = "24h"
GIVE_UP_AFTER = "24h"


def checked_places(value: PlaceT) -> PlaceT:
    """Callback of every option for a folder or a URL: refuse an invalid place before any work."""
    texts: Iterable[str] = [value] if isinstance(value, str) else value or ()
    for text in texts:
        parse_place(text)
    return value


Repo = Annotated[
    str,
    typer.Option(
        "--repo",
        envvar="OFFSITE_REPO",
        help="Repository: a folder or a URL (s3://, gs://, az://).",
        show_envvar=True,
        callback=checked_places,
    ),
]
OptionalRepo = Annotated[
    str | None,
    typer.Option(
        "--repo",
        envvar="OFFSITE_REPO",
        help="Repository: a folder or a URL (s3://, gs://, az://).",
        show_envvar=True,
        callback=checked_places,
    ),
]
Bootstrap = Annotated[
    str | None,
    typer.Option("--bootstrap", envvar="OFFSITE_BOOTSTRAP", help="Kafka brokers, as host:port[,host:port]."),
]
KafkaConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--kafka-config", envvar="OFFSITE_KAFKA_CONFIG", help="A client.properties file, Java or librdkafka names."
    ),
]
Against = Annotated[
    str | None, typer.Option("--against", help="Also compare with the cluster of these brokers, host:port[,host:port].")
]
RegistryUrl = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        help="The schema registry, as https://host:8081. Its schemas are backed up with the records; '' for none "
        "[default: that of the backup's first run, without a login].",
    ),
]
RegistryConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--registry-config",
        envvar="OFFSITE_REGISTRY_CONFIG",
        help="A properties file with the login at the registry, by Confluent's names (basic.auth.user.info, "
        "bearer.auth.token).",
    ),
]
BackupName = Annotated[str, typer.Option("--backup", help="Name of the backup.")]
OptionalBackup = Annotated[str | None, typer.Option("--backup", help="Name of the backup.")]
Records = Annotated[
    str | None,
    typer.Option(
        "--records",
        help="Place of the records of restores, for a read-only repository: the folder or URL that was given to "
        "restore run.",
        show_default="with the backup",
        callback=checked_places,
    ),
]
Output = Annotated[OutputFormat, typer.Option("--output", "-o", help="How to print the result.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
GiveUpAfter = Annotated[
    str,
    typer.Option("--give-up-after", help="With --follow: how long to wait during an outage before the command fails."),
]


def check_not_typed(context: typer.Context, names: Iterable[str], *, beside: str) -> None:
    """Return if none of the options `names` was typed: they mean nothing `beside` another option. Variables of the
    environment do not count. Raises `BadOption`."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            raise BadOption(f"{option} and {beside} do not go together", hint=f"omit {beside}, or {option}")


class WordChoice(NamedTuple):
    """The words of a use that a command takes, in `Annotated[…]`: all, `only` some, or all `but` some. `help`: text for
    a word whose own text does not fit. `prefix`: begins the texts of the use."""

    only: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    help: Mapping[str, str] = MappingProxyType({})
    prefix: str = ""

    def text(self, word: DeclaredOption) -> str:
        """The help of a word."""
        own = word.option.help
        return self.help.get(word.name) or (f"{self.prefix}{own[:1].lower()}{own[1:]}" if self.prefix else own)


def takes(*groups: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: the command's first parameters are instances of `groups`, whose fields become options of the command.

    The fields are annotated like typer parameters, or hold words. In the help the fields precede the command's own
    options.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        option_groups = [_Group(group) for group in groups]
        own_parameters = keyword_parameters(command)[len(groups) :]

        @wraps(command)
        def run(**arguments: Any) -> None:  # noqa: ANN401  # whatever typer parsed
            values = [group.value(arguments) for group in option_groups]
            command(*values, **arguments)

        of_groups = chain.from_iterable(group.parameters() for group in option_groups)
        parameters = [*of_groups, *own_parameters]
        parameters.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)
        return with_parameters(run, parameters)

    return decorate


class _Group:
    """A dataclass of options, with the typer parameters of every field."""

    def __init__(self, group: type) -> None:
        self._group, self._hints = group, get_type_hints(group, include_extras=True)
        self._options = {field.name: _parameters(field, self._hints[field.name]) for field in fields(group)}

    def parameters(self) -> Iterator[inspect.Parameter]:
        return chain.from_iterable(self._options.values())

    def value(self, arguments: dict[str, Any]) -> object:
        """The instance, made of what is taken out of `arguments`."""
        values = {
            name: {parameter.name: arguments.pop(parameter.name) for parameter in parameters}
            for name, parameters in self._options.items()
        }
        return self._group(
            **{name: value if _words(self._hints[name]) else value[name] for name, value in values.items()}
        )


def _parameters(of: Field[Any], hint: Any) -> list[inspect.Parameter]:  # noqa: ANN401  # whatever is annotated
    """Return the typer parameters of a field: a parameter per word, else a single parameter."""
    if (words := _words(hint)) is None:
        return [keyword_parameter(of.name, hint, inspect.Parameter.empty if of.default is MISSING else of.default)]
    choice = next(
        (annotation for annotation in getattr(hint, "__metadata__", ()) if isinstance(annotation, WordChoice)),
        WordChoice(),
    )
    return [
        keyword_parameter(word.name, Annotated[_type(word), _option(word, choice)], word.option.default)
        for word in declared_options(words)
        if word.name not in choice.but and (not choice.only or word.name in choice.only)
    ]


def _words(hint: Any) -> type | None:  # noqa: ANN401  # the same
    kind = getattr(hint, "__origin__", hint)
    return kind if is_typeddict(kind) else None


def _type(word: DeclaredOption) -> object:
    """Return the type for typer: a choice is an enumeration, many values are a list."""
    if isinstance(word.option.default, StrEnum):
        return type(word.option.default)
    return list[str] | None if word.type == Sequence[str] | None else word.type


def _option(word: DeclaredOption, choice: WordChoice) -> Any:  # noqa: ANN401  # typer names no type for it
    return typer.Option(
        f"--{word.name.replace('_', '-')}",
        help=choice.text(word),
        show_default=word.option.shown_default or True,
        callback=split_all if word.name in PATTERN_OPTIONS else checked_places if word.name == "records" else None,
    )
