from offsite_participant.confluent import *
from offsite_participant.confluent import __doc__
