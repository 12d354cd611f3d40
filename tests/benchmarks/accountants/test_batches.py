"""Tests of the benchmark of batches: its events are those of the page, and its tables are on it."""

from benchmarks.accountants import batches
from hockeystick.accounting import Gaussian, RandomAllocation, ShuffledBatches, compose, epsilon


def test_each_kind_is_the_event_of_the_whole_training():
    assert batches.event("allocation", 2.0, 3) == compose((RandomAllocation(1000, 1, Gaussian(2.0)), 3))
    fixed = batches.event("allocation, same step in every epoch", 2.0, 3)
    assert fixed == RandomAllocation(1000, 1, compose((Gaussian(2.0), 3)))
    assert batches.event("shuffle", 2.0, 3) == ShuffledBatches(3, 1000, Gaussian(2.0))
    assert batches.event("full", 2.0, 3) == compose((Gaussian(2.0), 3000))


def test_the_page_has_the_numbers_that_are_cheap_to_compute_again():
    page = batches.PAGE.read_text(encoding="utf-8")
    rows = {line.split(" | ")[0].strip("| "): line for line in page.splitlines() if line.startswith("| ")}
    for kind in ("shuffle", "full"):
        for run in batches.RUNS:
            assert f"{epsilon(batches.event(kind, *run), batches.DELTA).upper:.4f}" in rows[kind]
    assert all(kind in rows for kind in batches.KINDS)
