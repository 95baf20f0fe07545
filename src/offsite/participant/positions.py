from offsite_participant.positions import *
from offsite_participant.positions import __doc__
