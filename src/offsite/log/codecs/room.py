"""How much compressed bytes may become: looked at while they grow, for what they say of themselves proves nothing."""

from __future__ import annotations

__all__ = ["TooLargeError", "check_room"]


class TooLargeError(ValueError):
    """The plain bytes are more than they may be."""


def check_room(size_bytes: int, max_bytes: int) -> None:
    """Raise `TooLargeError` when so many bytes are too many."""
    if size_bytes > max_bytes:
        raise TooLargeError(f"it decompresses to more than {max_bytes} bytes")
