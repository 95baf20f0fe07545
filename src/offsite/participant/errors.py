from offsite_participant.errors import *
from offsite_participant.errors import __doc__
