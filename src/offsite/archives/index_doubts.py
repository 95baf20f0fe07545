"""What nothing vouches for where the manifest or indexes are not there, or have no digest: a sentence each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from offsite.archives.archive_layout import MANIFEST_KEY
from offsite.archives.index import ArchiveManifest, TopicIndex

__all__ = ["unvouched"]


def unvouched(manifest: ArchiveManifest | None, indexes: Mapping[str, TopicIndex | None]) -> Iterable[str]:
    """`indexes` of all topics; None where there is none that counts."""
    if manifest is None:
        yield f"no {MANIFEST_KEY} can be read: nothing vouches for the list of topics, and groups are unknown"
    elif not manifest.is_sealed:
        yield f"{MANIFEST_KEY} has no digest: nothing vouches for its topics and groups"
    if bare := [topic for topic, index in indexes.items() if index is None]:
        yield f"no index lists the files of {_named(bare)}: nothing vouches for them but checksums inside of them"
    if unsealed := [topic for topic, index in indexes.items() if index is not None and not index.is_sealed]:
        yield f"the index of {_named(unsealed)} has no digest: nothing vouches for what it says"


def _named(topics: Sequence[str]) -> str:
    return topics[0] if len(topics) == 1 else f"{topics[0]} and {len(topics) - 1} more"
