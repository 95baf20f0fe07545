"""offsite: hot, consistent, verifiable backup and restore for Apache Kafka.

import offsite

repo = offsite.open("s3://bucket/prefix")
backup = repo.backup("orders")
backup.restore_points()
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # type checkers know it by its name, and typing takes 10 ms
if TYPE_CHECKING:
    from offsite.library import Backup, Repo, init, open  # noqa: A004  # offsite.open reads as it should
    from offsite.model.version import __version__

__all__ = ["Backup", "Repo", "__version__", "init", "open"]

_PLACES = {
    "Backup": "offsite.library",
    "Repo": "offsite.library",
    "__version__": "offsite.model.version",
    "init": "offsite.library",
    "open": "offsite.library",
}


def __getattr__(name: str) -> object:
    """Imported when they are asked for: the command line must be able to answer signals in its first milliseconds."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return value
