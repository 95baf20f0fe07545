"""Settings whose values are in files, by Kafka's configuration providers (KIP-297, KIP-421): `${NAME:FOLDER:FILE}`.

One provider is known, Kafka's DirectoryConfigProvider: the value is the content of a file, as of a key of a Secret that
Kubernetes mounts. The file is in the folder itself: a path in place of its name would lead elsewhere. The variable of a
provider that is not configured stays text, as with Kafka's own clients.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from offsite.model.errors import BadKafkaConfig
from offsite.model.untrusted.text import NotUtf8, Property, decode_text

PROVIDERS = "config.providers"
_DIRECTORY = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
_CLASS = re.compile(r"config\.providers\.[^.]+\.class")
_VARIABLE = re.compile(r"\$\{([^}:]+):([^}:]*):([^}]+)\}")


def is_of_providers(name: str) -> bool:
    """Whether a setting configures providers."""
    return name == PROVIDERS or _CLASS.fullmatch(name) is not None


def resolve(properties: Sequence[Property], *, source: str) -> list[Property]:
    """Return the properties with the contents of the named files. Raises `BadKafkaConfig` for another provider, and for
    a file that cannot be read. Errors never hold a value."""
    values, names = {setting.name: setting.value.strip() for setting in properties}, _provider_names(properties)
    for name in sorted(names):
        provider = values.get(f"{PROVIDERS}.{name}.class", "")
        if provider != _DIRECTORY:
            raise BadKafkaConfig(
                f"{source}: {PROVIDERS}: offsite does not know the provider {name}", hint=f"use {_DIRECTORY}"
            )

    return [
        replace(setting, value=_resolved(setting.value, names, f"{source}:{setting.line}: {setting.name}"))
        for setting in properties
    ]


def named_files(properties: Sequence[Property]) -> Iterator[tuple[str, Path]]:
    """The files whose contents are values, each with the name of its setting."""
    names = _provider_names(properties)
    for setting in properties:
        for variable in _VARIABLE.finditer(setting.value):
            if variable[1] in names:
                yield setting.name, Path(variable[2], variable[3])


def _provider_names(properties: Sequence[Property]) -> frozenset[str]:
    listed = next((setting.value for setting in reversed(properties) if setting.name == PROVIDERS), "")
    return frozenset(filter(None, map(str.strip, listed.split(","))))


def _resolved(value: str, names: Collection[str], place: str) -> str:
    def content(variable: re.Match[str]) -> str:
        if variable[1] not in names:
            return variable[0]
        if "/" in variable[3] or "\0" in variable[0] or variable[3] in {".", ".."}:
            raise BadKafkaConfig(
                f"{place}: {variable[3]!r} is not the name of a file in a folder", hint="write ${NAME:FOLDER:FILE}"
            )
        return _content(Path(variable[2], variable[3]), place)

    return _VARIABLE.sub(content, value)


def _content(file: Path, place: str) -> str:
    try:
        return decode_text(file.read_bytes())
    except OSError as error:
        raise BadKafkaConfig(f"{place}: cannot read {file}: {error.strerror}", hint="check the file") from error
    except NotUtf8 as error:
        raise BadKafkaConfig(f"{place}: cannot read {file}: {error}", hint="check the file") from error
