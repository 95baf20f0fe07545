"""The limit on the size of expanded bytes. Checked while the bytes grow: sizes stated in a frame prove nothing."""

from __future__ import annotations

__all__ = ["TooLargeError", "check_room"]


class TooLargeError(ValueError):
    """The plain bytes exceed the limit."""


def check_room(size_bytes: int, max_bytes: int) -> None:
    """Raise `TooLargeError` when `size_bytes` exceed `max_bytes`."""
    if size_bytes > max_bytes:
        raise TooLargeError(f"it decompresses to more than {max_bytes} bytes")
