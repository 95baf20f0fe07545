from offsite_participant.ports import *
from offsite_participant.ports import __doc__
