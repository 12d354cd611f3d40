"""Audits of last iterates: at confidence 1 − 1e-6 with fixed seeds, correct cases pass and broken ones are refuted."""

import pytest

from hockeystick.audits.catalogue.mechanisms.last_iterates import last_iterate_cases


@pytest.mark.statistical
@pytest.mark.parametrize("case", tuple(last_iterate_cases()), ids=lambda case: case.name)
def test_a_last_iterate_is_refuted_where_a_condition_fails_and_only_there(case):
    assert case.audit(rng=7).refuted is case.broken
