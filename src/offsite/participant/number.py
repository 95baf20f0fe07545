from offsite_participant.number import *
from offsite_participant.number import __doc__
