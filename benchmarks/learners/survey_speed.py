"""The number of messages that a server of a survey counts a minute, on one core.

python -m benchmarks.learners.survey_speed [--write] [--work FOLDER]
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from benchmarks.frame import DOCS, Cells, Report, experiment, markdown
from hockeystick.learners.analytics import (
    CategoryQuestion,
    ItemQuestion,
    MeanQuestion,
    QuantileQuestion,
    Survey,
    SurveyServer,
    answer_round,
)
from hockeystick.learners.analytics.messages import HEADER_BYTES
from hockeystick.mechanisms import SimulationNoise

PAGE = DOCS / "federated-analytics.md"
CLIENTS, ONE_BY_ONE, DISTINCT = 1_000_000, 20_000, 200
TARGET = 1_000_000  # messages a minute
WORDS = ItemQuestion("abcdefghijklmnopqrstuvwxyz", length=8, stride=2)
SETTINGS = (
    ("shares of 16 categories", "local", CategoryQuestion([f"c{i}" for i in range(15)])),
    ("shares of 256 categories", "local", CategoryQuestion([f"c{i}" for i in range(255)])),
    ("quantiles, 64 cells", "local", QuantileQuestion(0, 64)),
    ("mean", "local", MeanQuestion(0, 64)),
    ("words of 8 letters", "local", WORDS),
    ("shares of 256 categories", "trusted", CategoryQuestion([f"c{i}" for i in range(255)])),
    ("words of 8 letters", "trusted", WORDS),
)


def texts(survey: Survey, count: int) -> bytes:
    """Returns messages of different clients, with the payloads of some."""
    first, noise = survey.first(), SimulationNoise(1)
    values: list[Any] = ["c1", "c2", "ab", "hello", 3.0, 40.0]
    made = [answer_round(first, first.asked[i], values[i % 6], most_epsilon=9.0, noise=noise) for i in range(DISTINCT)]
    rows = np.tile(np.stack([np.frombuffer(text, np.uint8) for text in made]), (-(-count // DISTINCT), 1))[:count]
    numbers = np.array(first.asked[:count], dtype="<u4")
    rows[:, HEADER_BYTES - 4 : HEADER_BYTES] = numbers.view(np.uint8).reshape(-1, 4)
    return rows.tobytes()


def one(name: str, model: Any) -> dict[str, Any]:
    """Returns a message's bytes, and messages a minute of CPU time: one by one, and in blocks with the result."""
    (question,) = [asked for title, trust, asked in SETTINGS if (title, trust) == (name, model)]
    survey = Survey(question=question, model=model, epsilon=1.0, clients=CLIENTS)
    asked = survey.first()
    count = len(asked.asked)
    block = texts(survey, count)
    size = len(block) // count
    single = [block[i * size : (i + 1) * size] for i in range(min(ONE_BY_ONE, count))]
    server, started = SurveyServer(asked, simulated=True), time.process_time()
    for text in single:
        server.receive(text)
    each = len(single) / (time.process_time() - started) * 60
    server, started = SurveyServer(asked, simulated=True), time.process_time()
    assert server.receive_all(block) == count
    server.close(noise=SimulationNoise(2) if model == "trusted" else None)
    return {"bytes": size, "each": each, "blocks": count / (time.process_time() - started) * 60}


def survey_speed(cells: Cells) -> Report:
    """Messages a minute on one core, of a CPU second each sixtieth."""
    keys = [(name, model) for name, model, _ in SETTINGS]
    found = cells.each(one, keys, "counting")
    rows = [
        (name, model, result["bytes"], f"{result['each'] / 1e6:.1f} million", f"{result['blocks'] / 1e6:.0f} million")
        for (name, model), result in found.items()
    ]
    least = min(min(result["each"], result["blocks"]) for result in found.values())
    return Report(
        markdown("question | model | bytes | a minute, one by one | a minute, in blocks, with the result", rows),
        {"on one core a server counts a million messages a minute": least >= TARGET},
    )


def main() -> int:
    return experiment("survey_speed", survey_speed, None, page=PAGE, sources=("learners/analytics",))


if __name__ == "__main__":
    sys.exit(main())
