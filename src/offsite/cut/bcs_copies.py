from offsite_participant.bcs_copies import *
from offsite_participant.bcs_copies import __doc__
