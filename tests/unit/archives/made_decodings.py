"""Generators for processes of their own: some do what a hostile file makes a library do."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from time import process_time

from offsite.archives.decoding_process import Ask

_kept: list[bytes] = []


def echo(ask: Ask, count: int) -> Iterator[object]:
    for number in range(count):
        yield ask(number)


def tell_environment(_: Ask) -> Iterator[dict[str, str]]:
    yield dict(os.environ)


def keep(_: Ask, size_bytes: int) -> Iterator[int]:
    _kept.append(b"x" * size_bytes)
    yield sum(map(len, _kept))


def take(_: Ask, size_bytes: int) -> Iterator[int]:
    yield len(b"x" * size_bytes)


def tell_process_once(_: Ask) -> Iterator[int]:
    yield os.getpid()


def tell_process_when_asked(ask: Ask) -> Iterator[int]:
    while True:
        ask(None)
        yield os.getpid()


def toil_for(_: Ask, time_s: float) -> Iterator[int]:
    yield os.getpid()
    end_s = process_time() + time_s
    while process_time() < end_s:
        pass


def tell_process(_: Ask) -> Iterator[int]:
    while True:
        yield os.getpid()


def end_by(_: Ask, number: int) -> Iterator[str]:
    yield "begun"
    os.kill(os.getpid(), number)


def toil(_: Ask) -> Iterator[str]:
    yield "begun"
    while True:
        pass


def hang(_: Ask) -> Iterator[str]:
    yield "begun"
    signal.pause()
