"""Targets of audits besides functions: recorded outputs, programs, services, databases, generators.

``hs.audit(hs.targets.Recorded(outputs0, outputs1), claim=(1.0, 0.0))``. The same names are in ``hs.audits``.
"""

from hockeystick._guess.names import unknown
from hockeystick.audits.systems.databases import SqlError as SqlError
from hockeystick.audits.systems.databases import SqlQuery as SqlQuery
from hockeystick.audits.systems.programs import Command as Command
from hockeystick.audits.systems.programs import CommandError as CommandError
from hockeystick.audits.systems.recorded_files import read_recorded as read_recorded
from hockeystick.audits.systems.synthesizers import Synthesizer as Synthesizer
from hockeystick.audits.systems.web_services import WebService as WebService
from hockeystick.audits.systems.web_services import WebServiceError as WebServiceError
from hockeystick.audits.targets.calling import TargetError as TargetError
from hockeystick.audits.targets.recorded import Recorded as Recorded
from hockeystick.audits.targets.recorded import RecordUsedUpError as RecordUsedUpError


def __getattr__(name: str) -> object:
    raise unknown(__name__, name)
