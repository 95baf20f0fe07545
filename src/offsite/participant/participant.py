from offsite_participant.participant import *
from offsite_participant.participant import __doc__
