from offsite_participant.bcs import *
from offsite_participant.bcs import __doc__
