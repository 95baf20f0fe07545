"""What the fuzzer reads: a corpus, the way to read it, and what may be believed of it when it was changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from tests.fuzz.reading import Reading

Files: TypeAlias = Mapping[str, bytes]


class Trust(Enum):
    """What other data than the corpus holds means where no damage is named."""

    HASHED = "every byte is under a hash: other data is a failure, unless the result says that nothing vouches for it"
    UNHASHED = "the format has no hash: other data is legal, if the result says that nothing vouches for it"
    WIRE = "a message of a broker: no hash, and no result that could say so; its batches have a CRC32C"
    RENEWED = "the hashes were made anew: other data has whatever vouches for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What lies around the bytes to change, such as compression: `open` takes it away, `close` puts it on again."""

    open: Callable[[bytes], bytes]
    close: Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`layers`: those of a file, by key and bytes, behind which a change may be made. `seal` puts a changed file among
    the others, with new hashes where `trust` says so. `donors` are more bytes to take pieces of. `doubted`: whether a
    result may say that nothing vouches for that file."""

    files: Files
    read: Callable[[Files], Reading]
    trust: Trust
    seal: Callable[[Files, str, bytes], Files] = lambda files, key, data: {**files, key: data}
    layers: Callable[[str, bytes], Sequence[Layer]] = lambda _key, _data: ()
    donors: Sequence[bytes] = field(default=())
    doubted: Callable[[str], bool] = lambda _key: True
