"""Settings by name, with file and line of every setting, so that errors can point to the place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TypeVar

from offsite.model.errors import BadKafkaConfig
from offsite.model.secret import Secret
from offsite.model.untrusted.properties import Property
from offsite.model.untrusted.whole_number import whole_number

_MAX_MS = (1 << 31) - 1  # about 24 days: sockets and locks refuse much more
T = TypeVar("T")


class ClientSettings:
    """Read-only settings. The later of two settings of a name counts. Errors never hold a value unless asked to."""

    def __init__(self, source: str, properties: Iterable[Property]) -> None:
        self._source = source
        self._properties = {setting.name: setting for setting in properties}

    def get(self, *names: str) -> str:
        """Return the value of the first of `names` that is set, or an empty text."""
        return next((self._properties[name].value.strip() for name in names if name in self._properties), "")

    def secret(self, *names: str) -> Secret | None:
        value = self.get(*names)
        return Secret(value) if value else None

    def has(self, *names: str) -> bool:
        return any(name in self._properties for name in names)

    def choice(self, name: str, allowed: Collection[str], default: str) -> str:
        value = self.get(name).upper() or default
        if value not in allowed:
            raise self.bad_setting(name, f"{value!r} is not one of {', '.join(allowed)}")
        return value

    def milliseconds(self, *names: str, default: int) -> int:
        name = next((candidate for candidate in names if self.has(candidate)), names[0])
        value = self.get(name) or str(default)
        if not (number := whole_number(value)):
            raise self.bad_setting(name, f"{value[:100]!r} is not a positive number of milliseconds")
        return min(number, _MAX_MS)

    def read_file(self, name: str) -> bytes:
        """Read the file named by the setting."""
        try:
            return Path(self.get(name)).read_bytes()
        except OSError as error:
            raise self.bad_setting(name, f"cannot read {self.get(name)}: {error.strerror}") from error

    def parse(self, name: str, parse: Callable[[str], T]) -> T:
        """Parse the value of a setting by `parse`. Adds file and line to a `BadKafkaConfig` of `parse`."""
        try:
            return parse(self.get(name))
        except BadKafkaConfig as error:
            raise self.bad_setting(name, error.message, hint=error.hint) from error

    def bad_setting(self, name: str, reason: str, *, hint: str = "") -> BadKafkaConfig:
        setting = self._properties.get(name)
        place = f"{self._source}:{setting.line}" if setting else self._source
        return BadKafkaConfig(f"{place}: {name}: {reason}", hint=hint or f"correct {name} in {self._source}")

    def unknown(self, supported: Collection[str]) -> tuple[str, ...]:
        """Return one line per setting outside of `supported`."""
        unused = (setting for setting in self._properties.values() if setting.name not in supported)
        return tuple(f"{self._source}:{setting.line}: offsite ignores {setting.name}" for setting in unused)
