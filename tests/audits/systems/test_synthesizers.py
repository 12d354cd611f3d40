"""Generators of synthetic data as targets: one fit and one sample are one output. A page audits three packages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Claim, Synthesizer, TargetError, audit

SURE = 1 - 1e-6
RNG = np.random.default_rng(0)


class Histogram:
    """Samples from a noisy histogram of three values; noise of scale 2 is for ε = 1 under replace-one."""

    def __init__(self, seed: int, scale: float = 2.0) -> None:
        self.rng, self.scale = np.random.default_rng(seed), scale

    def fit(self, table: Any) -> None:
        counts = np.bincount(table, minlength=3) + self.rng.laplace(scale=self.scale, size=3)
        self.shares = np.maximum(counts, 1e-9) / np.maximum(counts, 1e-9).sum()
        table.clear()  # a generator may do what it likes to its own copy

    def sample(self, n: int) -> Any:
        return np.bincount(self.rng.choice(3, size=n, p=self.shares), minlength=3)[:n]


class Fixed:
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def fit(self, table: Any, *, prior: str) -> None:
        self.prior = prior

    def sample(self, n: int) -> Any:
        return self.rows


@pytest.mark.statistical
def test_a_private_generator_is_not_refuted_and_one_that_adds_no_noise_is() -> None:
    """The counts of a sample of 3 rows are the output; without noise "2" occurs on one data set alone.

    It does in a sample of 3 of 4 rows with probability 37/64, so 1,000 samples show it. By chance the private one is
    refuted with probability 1e-6.
    """
    pair = [0, 0, 1, 1], [0, 0, 1, 2]
    options: dict[str, Any] = {"claim": Claim(1.0), "neighbours": pair, "samples": 1000, "rng": 1}

    fine = audit(Synthesizer(Histogram, rows=3), confidence=SURE, **options)
    wrong = audit(Synthesizer(lambda seed: Histogram(seed, 1e-9), rows=3), **options)

    assert not fine.refuted and not fine.warnings and wrong.refuted
    assert pair == ([0, 0, 1, 1], [0, 0, 1, 2])


def test_a_generator_without_a_seed_has_randomness_of_its_own() -> None:
    assert Synthesizer(Histogram).repeatable and not Synthesizer(lambda: Fixed([1])).repeatable


def test_fit_may_need_more_than_the_table() -> None:
    made = Fixed([1, 2])
    target = Synthesizer(lambda: made, rows=2, fit=lambda generator, table: generator.fit(table, prior="flat"))

    assert target([0], RNG) == [1, 2] and made.prior == "flat"


@pytest.mark.parametrize(
    ("make", "said"),
    [(lambda: 3, "no method fit"), (lambda: Fixed([1, 2, 3]), "returned 3 rows for 2")],
)
def test_what_is_no_generator_is_an_error_of_the_target(make: Any, said: str) -> None:
    with pytest.raises(TargetError, match=said):
        Synthesizer(make, rows=2, fit=lambda generator, table: None)([0], RNG)


@pytest.mark.parametrize(("make", "rows"), [(3, 5), (Histogram, 0), (Histogram, 2.5)])
def test_bad_arguments_are_refused(make: Any, rows: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        Synthesizer(make, rows=rows)


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore")
def test_privsyn_itself_is_fitted_and_sampled(tmp_path: Path) -> None:
    """Its categories are an argument, so that the third one may occur on both data sets."""
    pandas, privsyn = pytest.importorskip("pandas"), pytest.importorskip("privsyn")

    def make(seed: int) -> Any:
        return privsyn.PrivSynModel(epsilon=1.0, random_state=seed, artifact_root=str(tmp_path))

    def fit(generator: Any, table: Any) -> None:
        generator.fit(pandas.DataFrame({"x": table, "y": table}), domain={"x": 3, "y": 3})

    target = Synthesizer(make, rows=20, fit=fit)
    first, again = (target([0, 1, 0, 1, 2], np.random.default_rng(5)) for _ in range(2))

    assert target.repeatable and first.shape == (20, 2) and first.equals(again)
