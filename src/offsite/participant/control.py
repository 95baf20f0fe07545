from offsite_participant.control import *
from offsite_participant.control import __doc__
