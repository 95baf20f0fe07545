"""A small stored object for people: overwritten, never trusted, readable or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from offsite.model.errors import DamagedObject, OffsiteError
from offsite.model.journal import warned
from offsite.model.untrusted.json_object import JsonObject
from offsite.repository.json_form import parse_json_object
from offsite.stores.store import Store

T = TypeVar("T")


def get_hint(store: Store, key: str, decode: Callable[[JsonObject], T], *, bytes_max: int, uid: str) -> T | None:
    """Read and decode a hint; None if no hint exists or the hint cannot be read. Raises the errors of the store."""
    data = store.get_range(key, 0, bytes_max + 1)
    if data is None:
        return None
    try:
        if len(data) > bytes_max:
            raise DamagedObject(f"{key} is too large for a hint")
        return decode(parse_json_object(data, source=key, damaged=DamagedObject))
    except OffsiteError as error:
        warned("hint", why=error.message, uid=uid)
        return None
