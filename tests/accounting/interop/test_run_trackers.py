"""Tests of ε in experiment trackers: stand-ins with the two interfaces, and MLflow and W&B if they are installed."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dp_accounting
import pytest

from hockeystick.accounting import Accountant, Gaussian, InvalidArgumentError, PoissonSampled, compose, epsilon
from hockeystick.accounting.interop.opacus_training import TrainingAccountant
from hockeystick.accounting.interop.run_trackers import epsilon_logger


def train(steps: int, **options: Any) -> list[float | None]:
    accountant = TrainingAccountant(poisson_sampling=True)
    log = epsilon_logger(accountant, 1e-5, **options)
    found = []
    for _ in range(steps):
        accountant.step(noise_multiplier=2.0, sample_rate=0.1)
        found.append(log())
    return found


def spent(steps: int) -> float:
    return epsilon(compose((PoissonSampled(0.1, Gaussian(2.0)), steps)), 1e-5).upper


def test_each_interface_gets_the_certified_epsilon_with_its_step() -> None:
    rows: list[tuple[str, float, int]] = []
    mlflow = SimpleNamespace(log_metric=lambda name, value, step: rows.append((name, value, step)))
    wandb = SimpleNamespace(log=lambda values, step: rows.extend((n, v, step) for n, v in values.items()))
    for to in (mlflow, wandb, lambda name, value, step: rows.append((name, value, step))):
        rows.clear()
        assert train(4, to=to, every=2, name="eps") == [None, spent(2), None, spent(4)]
        assert rows == [("eps", spent(2), 2), ("eps", spent(4), 4)]


def test_an_accountant_of_native_events_is_logged_too() -> None:
    accountant = Accountant().compose(dp_accounting.GaussianDpEvent(4.0))
    assert epsilon_logger(accountant, 1e-5, to=lambda *_: None)() == epsilon(Gaussian(4.0), 1e-5).upper


@pytest.mark.parametrize(
    "changes, reason",
    [({"to": 3}, "takes no metrics"), ({"accountant": 3}, "get_epsilon"), ({"delta": 2.0}, "delta"),
     ({"delta": math.nan}, "delta"), ({"every": 0}, "every")],
)  # fmt: skip
def test_bad_arguments_are_refused(changes: dict[str, Any], reason: str) -> None:
    options: dict[str, Any] = {"accountant": TrainingAccountant(), "delta": 1e-5, "to": print, **changes}
    with pytest.raises(InvalidArgumentError, match=reason):
        epsilon_logger(options.pop("accountant"), options.pop("delta"), **options)


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore")  # of mlflow
def test_mlflow_stores_epsilon_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(tmp_path.as_uri())
    mlflow.set_experiment("training")
    with mlflow.start_run() as run:
        train(3, to=mlflow)
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "epsilon")
    assert [(row.step, row.value) for row in history] == [(step, spent(step)) for step in (1, 2, 3)]


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore")  # of wandb
def test_wandb_keeps_the_last_epsilon(tmp_path: Path) -> None:
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    with wandb.init(mode="offline", dir=tmp_path, project="training") as run:
        train(3, to=run)
        run.log({"done": 1}, step=4)  # W&B stores a step when the next one begins
        assert run.summary["epsilon"] == spent(3)
