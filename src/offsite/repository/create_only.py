"""Whether a store keeps the promise that everything else stands on: a create-only put never overwrites.

Some stores that speak S3 take `If-None-Match: *` and ignore it. There the second of two writers would replace a commit
of the first, and a name that was ever used would lose what it held.
"""

from __future__ import annotations

from offsite.model.errors import OverwritingStore
from offsite.model.ids import random_id
from offsite.repository.json_form import FORMAT, encode_object
from offsite.repository.layout import PROBE_KEY
from offsite.stores.store import PutResult, Store


def check_create_only(store: Store) -> None:
    """Put `probes/create-only` with new content: refused, if it is there from an earlier check; else once more.

    The object stays, a word with its digest, so that later checks need one put and nothing has to be deleted. Two
    writers at once do not disturb each other. Raises `OverwritingStore`, and what the store raises.
    """
    for _ in range(2):
        content = encode_object({"format": FORMAT, "word": random_id(16)})
        if store.put_if_absent(PROBE_KEY, content) is PutResult.OTHER:
            return
    raise OverwritingStore(
        f"{store.url} takes create-only puts (If-None-Match: *) and overwrites all the same: commits would be lost",
        hint="use a store that honours them, such as a newer version of this one, or a folder; nothing was changed",
    )
