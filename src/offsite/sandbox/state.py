"""`sandbox.json`: what is known about the broker of one folder between two commands. Holds no secret."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from offsite.model.errors import SandboxFailed
from offsite.sandbox.process import ProcessId

FILE_NAME = "sandbox.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The ports by listener name and the broker's process, which may be long gone. `command` started it."""

    ports: Mapping[str, int]
    process: ProcessId
    command: tuple[str, ...] = ()


def read_state(folder: Path) -> State | None:
    """The last state written, or None in a folder that never had a broker. Raises SandboxFailed when unreadable."""
    path = folder / FILE_NAME
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        command = tuple(fields["command"]) if "command" in fields else ()
        return State(ports=fields["ports"], process=ProcessId(**fields["process"]), command=command)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SandboxFailed(f"{path} is not a sandbox's state", hint=f"delete {path}") from error


def write_state(folder: Path, state: State) -> None:
    """Replace the state at once: a reader sees the old or the new one."""
    arriving = folder / f".{FILE_NAME}"
    arriving.write_text(json.dumps(asdict(state), indent=2) + "\n", encoding="utf-8")
    arriving.replace(folder / FILE_NAME)
