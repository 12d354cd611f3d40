"""A target that changes its input is refused, whatever the data are and whichever audit draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hockeystick.audits import Claim, TargetError, audit, sequential_audit
from hockeystick.audits.drawing.unchanged_data import Unchanged


def clips_too_late(x: Any, rng: np.random.Generator) -> float:
    total = float(np.sum(x))
    x[:] = np.clip(x, 0.0, 1.0) if isinstance(x, np.ndarray) else [min(one, 1.0) for one in x]
    return total + rng.laplace()


def pair(as_list: bool) -> tuple[Any, Any]:
    d0, d1 = [0.5, 1000.0], [0.5]
    return (d0, d1) if as_list else (np.array(d0), np.array(d1))


@pytest.mark.parametrize("as_list", [True, False])
def test_a_target_that_clips_its_input_in_place_is_refused(as_list: bool) -> None:
    with pytest.raises(TargetError, match="changes its input: d0"):
        audit(clips_too_late, claim=Claim(1.0), neighbours=pair(as_list), samples=200, rng=1)
    with pytest.raises(TargetError, match="changes its input: d0"):
        sequential_audit(clips_too_late, claim=Claim(1.0), neighbours=pair(as_list), most_samples=200, rng=1)


def test_its_twin_that_copies_is_refuted() -> None:
    """Without noise worth the name: the sums are 999 apart, so the refutation is certain but for 1e-6."""
    found = audit(
        lambda x, rng: clips_too_late(x.copy(), rng), claim=Claim(1.0), neighbours=pair(False), samples=200, rng=1
    )

    assert found.refuted


class Cached:
    """Data whose pickle changes when they are looked at, in what is not read value by value."""

    def __getstate__(self) -> dict[str, int]:
        return {"a": 1}


def test_data_that_are_not_changed_or_not_known_pass() -> None:
    for data in (1.0, [1.0, float("nan")], np.zeros(3), {"a": [1]}, Cached(), (x for x in [1])):
        Unchanged((data, data)).check()
