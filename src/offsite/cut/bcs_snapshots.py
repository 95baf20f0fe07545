from offsite_participant.bcs_snapshots import *
from offsite_participant.bcs_snapshots import __doc__
