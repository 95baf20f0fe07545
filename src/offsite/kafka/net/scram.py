"""What a broker may ask of a client that logs in by SCRAM. The mechanism itself is kafka-python's.

A broker that is not the one it seems to be would ask for few iterations, to find the password from our proof by
guessing, or for so many that we never come back.
Source: RFC 5802, RFC 7677 (at least 4,096 iterations); Kafka lets nobody set fewer.
"""

from __future__ import annotations

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 1_000_000
"""Half a second of one core; Kafka's own limit is 16,384."""

_MAX_DIGITS = 7


def check_challenge(sent: bytes, answer: bytes) -> None:
    """Check the server-first-message that answers our client-first-message. Raises `ValueError` that says why not."""
    fields = dict(pair.partition(b"=")[::2] for pair in answer.split(b","))
    ours, whole = sent.rpartition(b",r=")[2], fields.get(b"r", b"")
    if not whole.startswith(ours) or len(whole) <= len(ours):
        raise ValueError("its nonce does not go on from ours")
    iterations = fields.get(b"i", b"")
    if not iterations.isdigit() or len(iterations) > _MAX_DIGITS:
        raise ValueError("its count of iterations is not a number that can be")
    if not MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS:
        raise ValueError(
            f"it asks for {int(iterations):,} iterations, and only {MIN_ITERATIONS:,} to {MAX_ITERATIONS:,} are safe"
        )
