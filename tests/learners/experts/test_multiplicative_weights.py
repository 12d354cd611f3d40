"""The exact regret of multiplicative weights, computed a few batches at a time."""

from __future__ import annotations

import numpy as np
import pytest

from hockeystick.learners.experts import multiplicative_weights


@pytest.mark.parametrize("cells", [1, 7, 1 << 15])
@pytest.mark.parametrize("rate", [1e-3, 0.7, 40.0, 900.0])
def test_the_regret_does_not_depend_on_blocks(rate: float, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against normalised logarithms of whole streams, also where weights underflow or an expert is far behind."""
    monkeypatch.setattr(multiplicative_weights, "_CELLS", cells)
    batches = 3.0 * np.random.default_rng(1).random((60, 3))
    batches[:, 2] += 20.0
    laws = np.exp(multiplicative_weights.log_weights(batches, rate))
    expected = float((laws * batches).sum()) - float(batches.sum(axis=0).min())
    for cuts in ([], [1, 20, 59]):
        found = multiplicative_weights.expected_regret(iter(np.split(batches, cuts)), rate)
        assert found == pytest.approx(expected, rel=1e-11, abs=1e-11)


def test_streams_without_losses_have_no_regret() -> None:
    assert multiplicative_weights.expected_regret([np.zeros((5, 2)), np.zeros((1, 2))], 1.0) == 0.0
