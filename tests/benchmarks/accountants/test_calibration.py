"""Tests that the counts on the page of the calibration benchmark agree with its rows."""

from benchmark_scripts import benchmark


def test_the_page_counts_late_cells_and_too_little_noise():
    bench = benchmark("accountants.calibration")
    cells = list(bench.grid())
    assert len(cells) == len(set(cells)) == 6 * 5 * 5 + 12
    mine = [{"sigma": 2.0, "rejected": 1.999998, "evaluations": 2, "cpu": cpu} for cpu in (0.5, 0.75, 9.0)]
    theirs = [
        {"sigma": 1.9, "by": "PLD", "cpu": 1.0},
        {"sigma": 2.2, "by": "RDP", "cpu": 0.5},
        {"error": "over 5 CPU s", "by": "RDP", "cpu": 5.0},
    ]
    page = bench.page([bench.Found(*row) for row in zip(cells, mine, theirs, strict=False)])

    assert "| FAIL | each cell ≤ 5 CPU s | 2 of 3; most 9.00 s |" in page
    assert "| PASS | median ≤ 1 CPU s | 0.75 s |" in page
    assert "In 1 cells its σ is more than 1e-6 below" in page and f"the smallest is {cells[0]} (0.950000)" in page
    assert f"{cells[2]} (9.00 s)" in page and "| 1.100000 | RDP | 0.50 |" in page and "| over 5 CPU s | – | – |" in page
