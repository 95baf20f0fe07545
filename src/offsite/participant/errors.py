"""What can go wrong for a participant. The kinds say what the application does; none of them loses an input.

    ParticipantError
    |-- LeaseLost           the lease ran out (form B): nothing was sent; go on with `poll()`
    |-- NotDelivered        an output did not reach its partition: go on with `poll()`
    |-- NotCommitted        the group did not take the offsets, as after a rebalance: go on with `poll()`
    |-- ControlUnavailable  the control topic did not answer: try again, or end
    |-- Unreadable          what another one wrote cannot be what it claims to be: stop
    `-- UnknownVersion      it was written by a later offsite: stop, install that one

After the first two, `poll()` goes back to what was committed last, so that no input counts as handled whose output is
missing. The last two are no errors of a moment: a number that is not understood is a number forgotten.
"""

from __future__ import annotations


class ParticipantError(Exception):
    """Base of all errors of this package."""


class LeaseLost(ParticipantError):
    """The last beat that is known to have arrived is too old to produce: whoever takes a checkpoint may have gone on
    without this participant. It joins anew at the next `poll()`."""


class NotDelivered(ParticipantError):
    """At least one record since the last commit was not acknowledged by its broker. It may have arrived all the
    same."""


class NotCommitted(ParticipantError):
    """The offsets are not committed, or it is not known whether they are."""


class ControlUnavailable(ParticipantError):
    """The control topic could not be read or written in time, or does not exist."""


class Unreadable(ParticipantError, ValueError):
    """A record of the control topic, or the metadata of a commit, is damaged or was not written by offsite."""


class UnknownVersion(ParticipantError, ValueError):
    """A record of the control topic, or the metadata of a commit, has a version that this offsite does not know."""
