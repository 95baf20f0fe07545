from offsite_participant.kafka_python import *
from offsite_participant.kafka_python import __doc__
