"""A changed object with every hash of it made anew, so that what lies behind the checks is reached.

Knows no format: wherever a JSON object names the hash of the old bytes, it gets that of the new ones, and the size that
stands beside it. That object changes by it, so whatever names its hash is changed as well, up to the last commit or
index. Parquet objects are not rewritten: a catalog that no longer fits its commits does not count.
"""

from __future__ import annotations

import hashlib
from typing import Any

from blake3 import blake3

from offsite.model.untrusted.bounded_json import DigestState, check_digest, with_digest
from tests.fuzz.json_mutators import encode_as, parse
from tests.fuzz.target import Files

_DIGEST_BYTES = len(with_digest(b'{"a":1}\n')) - len(b'{"a":1}\n')
_SIZES = frozenset({"stored_bytes", "size_bytes", "size", "compressed_size"})
_NAME_DIGITS = 8


def has_digest(data: bytes) -> bool:
    return check_digest(data) is DigestState.RIGHT


def undigested(data: bytes) -> bytes:
    """A JSON object without the digest at its end."""
    return data[: -_DIGEST_BYTES - len(b"}\n")] + b"}\n" if has_digest(data) else data


def renewed(files: Files, key: str, data: bytes) -> Files:
    """`files` with `data` as `key`, and every hash that follows from it."""
    old = files[key]
    if data == old:
        return files
    found = {each: content for each, content in files.items() if each != key}
    name = _renamed(key, old, data)
    found[name] = data
    for other in sorted(found):
        if other != name and (changed := _with_new_hash(found[other], old, data, {key: name})) is not None:
            found = dict(renewed(found, other, changed))
    return found


def _renamed(key: str, old: bytes, new: bytes) -> str:
    """Group snapshots carry the beginning of their hash in their name."""
    return key.replace(f"-{blake3(old).hexdigest()[:_NAME_DIGITS]}.", f"-{blake3(new).hexdigest()[:_NAME_DIGITS]}.")


def _with_new_hash(data: bytes, old: bytes, new: bytes, names: dict[str, str]) -> bytes | None:
    """`data` as it is when it names `new` in place of `old`; None where it does not name it."""
    body = undigested(data)
    value = parse(body)
    if value is None:
        return None
    hashes = {blake3(old).hexdigest(): blake3(new).hexdigest()}
    hashes |= {hashlib.sha256(old).hexdigest(): hashlib.sha256(new).hexdigest()}
    texts = hashes | {f"blake3:{before}": f"blake3:{after}" for before, after in hashes.items()}
    texts |= {f"sha256:{before}": f"sha256:{after}" for before, after in hashes.items()}
    texts |= {before: after for before, after in names.items() if before != after}
    changed, is_named = _replaced(value, texts, (len(old), len(new)))
    if not is_named:
        return None
    encoded = encode_as(changed, body)
    return with_digest(encoded) if has_digest(data) else encoded


def _replaced(value: Any, texts: dict[str, str], sizes: tuple[int, int]) -> tuple[Any, bool]:
    """`value` with other texts, and sizes beside them; whether there was any."""
    if isinstance(value, str):
        return texts.get(value, value), value in texts
    if isinstance(value, list):
        found = [_replaced(each, texts, sizes) for each in value]
        return [each for each, _ in found], any(is_named for _, is_named in found)
    if not isinstance(value, dict):
        return value, False
    pairs = {key: _replaced(each, texts, sizes) for key, each in value.items()}
    is_here = any(isinstance(value[key], str) and is_named for key, (_, is_named) in pairs.items())
    renewed_ = {key: each for key, (each, _) in pairs.items()}
    if is_here:
        renewed_ |= {key: sizes[1] for key in _SIZES & value.keys() if value[key] == sizes[0]}
    return renewed_, any(is_named for _, is_named in pairs.values())
