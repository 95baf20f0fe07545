from offsite_participant.core import *
from offsite_participant.core import __doc__
