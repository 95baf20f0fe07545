from offsite_participant.membership import *
from offsite_participant.membership import __doc__
