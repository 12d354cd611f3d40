from .conducting import conduct_survey as conduct_survey
from .messages import RefusedAnswerError as RefusedAnswerError
from .messages import client_key as client_key
from .questions import CategoryQuestion as CategoryQuestion
from .questions import ItemQuestion as ItemQuestion
from .questions import MeanQuestion as MeanQuestion
from .questions import QuantileQuestion as QuantileQuestion
from .results import SurveyResult as SurveyResult
from .survey import Survey as Survey
from .survey import SurveyRound as SurveyRound
from .survey_client import SurveyClient as SurveyClient
from .survey_client import answer_round as answer_round
from .survey_server import SurveyServer as SurveyServer

__all__: list[str]
