"""Tests of the benchmark of last iterates: the tables that are cheap to compute are on the page."""

from benchmarks.accountants import last_iterates


def test_the_page_has_the_tables_of_fixed_batches_and_of_conditions():
    page = last_iterates.PAGE.read_text(encoding="utf-8")
    for table in (last_iterates.cyclic(), last_iterates.full(), last_iterates.conditions()):
        assert table in page


def test_both_columns_of_cyclic_batches_agree():
    for line in last_iterates.cyclic().splitlines()[2:]:
        assert line.split(" | ")[-1].rstrip(" |") == line.split(" | ")[-2]
