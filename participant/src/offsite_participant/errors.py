"""The errors of a participant. The kind tells the application what to do; no kind loses an input.

    ParticipantError
    |-- LeaseLost           the lease ran out (form B): nothing was sent; go on with `poll()`
    |-- NotDelivered        an output did not reach the partition: go on with `poll()`
    |-- NotCommitted        the group did not take the offsets, as after a rebalance: go on with `poll()`
    |-- ControlUnavailable  the control topic did not answer: try again, or end
    |-- Unreadable          a foreign record is invalid: stop
    `-- UnknownVersion      written by a later offsite: stop, install the later version

After the first two, `poll()` goes back to the last commit: no input counts as handled without its output. The last two
are not temporary: a number not understood is a forgotten number.
"""

from __future__ import annotations


class ParticipantError(Exception):
    """Base of all errors of the package."""


class LeaseLost(ParticipantError):
    """The last beat known to have arrived is too old to produce: a taker of a checkpoint may have continued without the
    participant, which joins again at the next `poll()`."""


class NotDelivered(ParticipantError):
    """At least one record since the last commit was not acknowledged by its broker. The record may have arrived
    nevertheless."""


class NotCommitted(ParticipantError):
    """The offsets are not committed, or the outcome is unknown."""


class ControlUnavailable(ParticipantError):
    """The control topic could not be read or written in time, or does not exist."""


class Unreadable(ParticipantError, ValueError):
    """A record of the control topic, or the metadata of a commit, is damaged or was not written by offsite."""


class UnknownVersion(ParticipantError, ValueError):
    """A record of the control topic, or the metadata of a commit, has a version unknown to the present offsite."""
