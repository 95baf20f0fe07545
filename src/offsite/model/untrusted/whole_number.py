"""Whole numbers in text from outside: an option, a file name, a setting. Python refuses more than 4,300 digits by an
error of its own, and reads digits of further scripts."""

from __future__ import annotations

import re
from collections.abc import Mapping

from offsite.model.untrusted.bounds import MAX_DIGITS, MAX_OFFSET

__all__ = ["setting_number", "whole_number"]

_DIGITS = re.compile(r"0*([0-9]+)", re.ASCII)


def whole_number(text: str, *, most: int = MAX_OFFSET) -> int | None:
    """Return the number from 0 to `most` written by `text` in decimal digits, else None."""
    match = _DIGITS.fullmatch(text)
    if match is None or len(match[1]) > MAX_DIGITS or (number := int(match[1])) > most:
        return None
    return number


def setting_number(configs: Mapping[str, str], name: str, default: int) -> int:
    """Return a setting of Kafka as a number; `default` for a missing value, or a value that Kafka would refuse."""
    text = configs.get(name, "")
    number = whole_number(text.removeprefix("-"))
    if number is None:
        return default
    return -number if text.startswith("-") else number
