"""Counts of words: each is what its name says, the vocabulary knows no side, and hashes change nothing."""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import subprocess
import sys
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hockeystick.audits.outputs import word_counts
from hockeystick.audits.outputs.cells import Intervals, Partition, as_seen, ordinal, real_blocks
from hockeystick.audits.outputs.features import Coordinate, Scored, _differences, fit_counts, of_words, telling_slots
from hockeystick.audits.outputs.reading import Codebook, Layout, Table, read
from hockeystick.audits.outputs.word_counts import View, shown

RNG = np.random.default_rng(0)


def batches(*sides: list[Any]) -> tuple[list[Table], list[Layout], list[dict[int, Any]]]:
    book = Codebook()
    tables = [read(side, len(side), book, vectorised=False) for side in sides]
    return tables, book.layouts, [real_blocks(table, tuple(book.layouts), None) for table in tables]


def view_of(*sides: list[Any]) -> tuple[View, np.ndarray]:
    """The view of outputs on two data sets, and its values, those of the first data set first."""
    (d0, d1), layouts, (r0, r1) = batches(*sides)
    found = View.of((d0, d1), layouts, (r0, r1))
    assert found is not None
    view, tables = found
    assert tables[0].runs == len(sides[0]) and tables[1].runs == len(sides[1])
    return view, np.concatenate([table.blocks[0] for table in tables])


def names(view: View) -> list[str]:
    return [view.layout.slot(slot) for slot in range(len(view.layout.kinds))]


def told(name: str, output: list[str], vocabulary: set[str]) -> float:
    """The value of a list's number by its name alone."""
    times = {word: output.count(word) for word in output}
    words = re.findall(r"'([^']*)'", name)
    match name.split(" in output")[0].split(f" '{words[0]}'" if words else "\0"):
        case ["the length of output"]:
            return len(output)
        case ["the number of characters"]:
            return len("".join(output))
        case ["the number of distinct values"]:
            return len(times)
        case ["the count of the most frequent value"]:
            return max(times.values(), default=0)
        case ["the number of values that occur more than once"]:
            return sum(1 for count in times.values() if count > 1)
        case ["the number of values outside the vocabulary"]:
            return len([word for word in output if word not in vocabulary])
        case ["the number of equal neighbours"]:
            return sum(one == other for one, other in pairwise(output))
        case ["the number of decreases between neighbours"]:
            return sum(one > other for one, other in pairwise(output))
        case ["the number of", ""]:
            return output.count(words[0])
        case ["the number of", rest, *_] if rest.startswith(" before"):
            return sum(pair == (words[0], words[1]) for pair in pairwise(output))
        case ["the index of the first", ""]:
            return output.index(words[0]) if words[0] in output else len(output)
        case ["the index, from the end, of the last", ""]:
            return output[::-1].index(words[0]) if words[0] in output else len(output)
    raise AssertionError(name)


@settings(max_examples=7)
@given(st.integers(0, 2**32), st.integers(1, 6), st.floats(0.1, 0.9))
def test_every_number_is_what_its_name_says(seed: int, longest: int, skew: float) -> None:
    rng = np.random.default_rng(seed)
    law = np.array([skew, 0.9 - 0.9 * skew, 0.05 * (1 - skew), 0.05 * (1 - skew)])
    outputs = [
        [str(word) for word in rng.choice(["a", "b", "HIV", "dd"], p=law, size=rng.integers(longest + 1))]
        for _ in range(18)
    ]
    outputs += [["dd"] * i for i in range(1, 21)]
    view, values = view_of(outputs[:20], outputs[20:])
    held = {word for word in ("a", "b", "HIV", "dd") if sum(word in output for output in outputs) >= 2}

    assert len(names(view)) == values.shape[1] > 4
    for name, column in zip(names(view), values.T, strict=True):
        assert column.tolist() == [told(name, output, held) for output in outputs], name


@settings(max_examples=8)
@given(st.lists(st.text("abc ", max_size=5), min_size=20, max_size=40, unique=True), st.randoms())
def test_the_vocabulary_does_not_know_which_output_is_of_which_data_set(texts: list[str], random: Any) -> None:
    sides = texts[: len(texts) // 2], texts[len(texts) // 2 :]
    mixed = random.sample(texts, len(texts))

    view, values = view_of(*sides)
    other, again = view_of(mixed[: len(sides[0])], mixed[len(sides[0]) :])

    assert sorted(names(view)) == sorted(names(other))
    order = [texts.index(text) for text in mixed]
    columns = [names(other).index(name) for name in names(view)]
    assert np.array_equal(values[order], again[:, columns])


def test_an_output_is_viewed_by_itself() -> None:
    """So a bounding sample has the same value in any batch, and in the batch that showed the vocabulary."""
    outputs = [list(RNG.choice(["a", "b", "cc", "d"], size=5)) for _ in range(60)]
    view, values = view_of(outputs[:30], outputs[30:])

    for batch in ([7], [3, 3, 7], list(range(60))[::-1]):
        (table,), layouts, (real,) = batches([outputs[i] for i in batch] + [["new", "words"]])
        found = view.table(table, layouts, real).blocks[0]
        assert np.array_equal(found[:-1], values[batch])
        assert found[-1][names(view).index("the number of characters in output")] == 8


def test_words_of_one_data_set_alone_are_in_the_vocabulary() -> None:
    """A vocabulary of the first data set would miss a leak on the second one: it has no number of 'HIV'."""
    d0 = [list(RNG.choice(["flu", "cold"], size=6)) for _ in range(60)]
    d1 = [[*output[1:], "HIV"] for output in d0]

    for sides in ((d0, d1), (d1, d0)):
        assert "the number of 'HIV' in output" in names(view_of(*sides)[0])
    assert "the number of 'HIV' in output" not in names(view_of(d0, d0)[0])


def test_a_repeated_row_is_counted_not_only_known() -> None:
    """A set of the rows, or whether a row occurs, would be alike here."""
    rows = [
        [(w, int(n)) for w, n in zip(RNG.choice(["a", "b"], 4), RNG.integers(9, size=4), strict=True)]
        for _ in range(40)
    ]
    rows = [list(dict.fromkeys(own)) for own in rows]
    view, values = view_of(rows, [[*own, own[0]] for own in rows])

    twice = values[:, names(view).index("the number of values that occur more than once in the rows of output")]
    assert twice.tolist() == [0] * 40 + [1] * 40


def test_columns_are_counted_side_by_side() -> None:
    """The pair ('HIV', 'm') occurs on d1 alone, while each column by itself is alike."""

    def table(d: int) -> dict[str, list[str]]:
        sex = [str(one) for one in RNG.choice(["m", "f"], size=3)]
        diag = ["HIV" if one == "fm"[d] else "flu" for one in sex]
        return {"n": [str(n) for n in RNG.integers(5, size=3)], "diag": diag, "sex": sex}

    sides = [
        [
            [dict(zip(own, row, strict=True)) for row in zip(*own.values(), strict=True)]
            for own in (table(d) for _ in range(60))
        ]
        for d in (0, 1)
    ]
    view, values = view_of(*sides)

    name = "the number of ('HIV', 'm') in output[*].diag beside output[*].sex"
    counts = values[:, names(view).index(name)]
    assert counts[:60].max() == 0 and counts[60:].mean() == pytest.approx(1.5, abs=0.5)
    assert not view.counts[names(view).index(name)]  # a sum over words counts no word twice


def test_numbers_beside_words_are_added_up_and_counted() -> None:
    outputs = [[(str(RNG.choice(["a", "b"])), float(n)) for n in RNG.integers(4, size=5)] for _ in range(60)]
    view, values = view_of(outputs[:30], outputs[30:])

    column = {name: own.tolist() for name, own in zip(names(view), values.T, strict=True)}
    assert column["the sum of output[*, 1]"] == [sum(n for _, n in own) for own in outputs]
    assert column["the minimum of output[*, 1]"] == [min(n for _, n in own) for own in outputs]
    assert column["the number of 3 in output[*, 1]"] == [sum(n == 3 for _, n in own) for own in outputs]


def test_infinite_and_missing_numbers_are_no_hindrance() -> None:
    numbers = [float(x) for x in RNG.normal(size=40)]
    outputs = [(f"note {i}", x) for i, x in enumerate([*numbers, np.inf, -np.inf, np.nan])]

    view, values = view_of(outputs[:20], outputs[20:])

    sums = values[:, names(view).index("the sum of output[1]")]
    assert np.isfinite(values).all()
    assert sums[-3:].tolist() == [1e100, -1e100, 0.0]


def test_whole_outputs_that_recur_or_have_no_words_have_no_view() -> None:
    for outputs in (
        ["yes", "no"] * 20,
        [float(x) for x in RNG.normal(size=40)],
        [[1.0] * (1 + i % 20) for i in range(40)],
    ):
        (d0, d1), layouts, (r0, r1) = batches(outputs[::2], outputs[1::2])
        assert View.of((d0, d1), layouts, (r0, r1)) is None
    same = [{"n": list(range(i))} for i in range(20)]
    assert "the length of output.n" in names(view_of(same, same)[0])


def test_equal_outputs_have_one_row_and_columns_that_repeat_others_are_left_out() -> None:
    outputs = [[w] * n for n in range(1, 6) for w in "abcd"]
    view, values = view_of(outputs, outputs)

    assert len({column.tobytes() for column in values.T}) == values.shape[1]
    assert all(len(set(column.tolist())) > 1 for column in values.T)
    assert np.array_equal(values[:20], values[20:])
    assert "the number of characters in output" not in names(view)  # as many as the length


def test_limits_of_the_vocabulary_hold() -> None:
    outputs = [[f"w{i}" for i in RNG.choice(3000, size=200)] for _ in range(30)]
    view, values = view_of(outputs[:15], outputs[15:])

    words = [name for name in names(view) if re.fullmatch(r"the number of 'w\d+' in output", name)]
    outside = values[:, names(view).index("the number of values outside the vocabulary in output")]
    known = view.places[0].words  # of which those that equal others are no columns
    assert len(known) == word_counts._MOST_WORDS and len(words) <= len(known)
    assert outside.tolist() == [sum(word not in known for word in own) for own in outputs]


def test_few_outputs_are_looked_at_if_each_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_counts, "_MOST_ITEMS", 40 * 100)
    monkeypatch.setattr(word_counts, "_LEAST_RUNS", 10)
    outputs = [[str(word) for word in RNG.integers(9, size=100)] for _ in range(120)]
    (d0, d1), layouts, (r0, r1) = batches(outputs[:60], outputs[60:])

    found = View.of((d0, d1), layouts, (r0, r1))

    assert found is not None and [table.runs for table in found[1]] == [40, 40]


@pytest.mark.statistical
def test_the_order_of_hashes_changes_nothing() -> None:
    """Python's hashes of strings are random in each process, and with them the order of sets."""
    code = """
import json, random
from hockeystick.audits.outputs.reading import Codebook, read
from hockeystick.audits.outputs.word_counts import View
rng = random.Random(1)
rows = lambda: [(rng.choice("abcdef"), rng.choice("xyz"), rng.choice("mf")) for _ in range(4)]
sides = [[rows() for _ in range(30)] for _ in "01"]
book = Codebook()
tables = [read(side, 30, book, vectorised=False) for side in sides]
view, _ = View.of(tuple(tables), book.layouts, ({}, {}))
print(json.dumps(view.layout.key))
"""
    found = set()
    for seed in ("0", "1", "12345"):
        run = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        )
        found.add(run.stdout)
    assert len(found) == 1 and len(json.loads(found.pop())) > 60


def test_partitions_of_a_view_take_what_it_shows() -> None:
    outputs = [[str(w) for w in RNG.choice(["a", "b", "HIV"], size=4)] for _ in range(80)]
    view, values = view_of(outputs[:40], outputs[40:])
    slot = names(view).index("the number of 'HIV' in output")
    cells = Intervals(Coordinate(slot), ordinal(np.array([1.0])), integral=True)
    partition = Partition((view.layout,), np.zeros(1, dtype=np.int64), {0: cells}, 3, ordered=True, view=view)
    book = Codebook()
    read(outputs[:3], 3, book, vectorised=False)
    book.closed = True

    more = book.continued()
    table = read([*outputs, ["HIV"] * 9], 81, more, vectorised=False)
    plain, seen = as_seen([None, view], table, more.layouts, None)

    assert len(book.layouts) == 3 and book.closed and len(more.layouts) > 3
    assert plain[0] is table
    assert partition.count(*seen).tolist() == [
        sum("HIV" not in own for own in outputs),
        1 + sum("HIV" in own for own in outputs),
        0,
    ]
    assert partition.words(np.array([False, True, False])) == "the number of 'HIV' in output >= 1"


@pytest.mark.parametrize(
    ("item", "words"),
    [("a", "'a'"), (None, "None"), (2.0, "2"), (b"a", "b'a'"), (("value", "NaN"), "NaN"), (("a", 1.5), "('a', 1.5)")],
)
def test_items_have_words(item: Any, words: str) -> None:
    assert shown(item) == words
    assert len(shown(str(item) * 99)) == 60


def test_weights_of_words_are_log_ratios_of_their_rates() -> None:
    """Poisson counts: the sum of weighted counts is the log-likelihood ratio, up to a constant."""
    rates = np.array([[0.5, 1.0, 2.0, 1.0], [1.0, 1.0, 1.0, 0.25]])
    pair = RNG.poisson(rates[0], size=(4000, 4)).astype(float), RNG.poisson(rates[1], size=(4000, 4)).astype(float)

    score = fit_counts(pair, RNG, columns=np.array([True, True, True, False]))

    assert score.weights[:3] == pytest.approx(np.log(rates[0] / rates[1])[:3], abs=0.08) and score.weights[3] == 0.0
    assert fit_counts(pair, RNG, columns=np.zeros(4, dtype=bool)).weights.tolist() == [0.0] * 4


def test_a_score_names_the_count_that_goes_with_it_most() -> None:
    columns = np.stack([RNG.poisson(3, size=500), RNG.normal(size=500), np.full(500, 7.0)], axis=1)
    layout = word_counts.Named(("features", "x", "y", "z"), ("i", "f8", "i"))

    named = of_words(
        (columns[:200], columns[200:]), RNG, fit=lambda pair, rng: lambda real: real[:, 0] + 1e-3 * real[:, 1]
    )
    alike = of_words((columns[:200], columns[200:]), RNG, fit=lambda pair, rng: lambda real: real[:, 2])

    assert named is not None and alike is not None
    assert Scored(named, "a score").words(layout) == "a score (most of all x)"
    assert alike.heaviest == 0
    assert of_words((columns, columns), RNG, fit=lambda pair, rng: None) is None


def test_views_can_be_sent_to_workers() -> None:
    outputs = [[str(w) for w in RNG.choice(["a", "b", "HIV"], size=4)] for _ in range(80)]
    view, values = view_of(outputs[:40], outputs[40:])
    (table,), layouts, (real,) = batches(outputs)

    sent = pickle.loads(pickle.dumps(view))

    assert np.array_equal(sent.table(table, layouts, real).blocks[0], values) and names(sent) == names(view)


def test_equal_numbers_have_equal_ranks_whatever_their_side() -> None:
    """Ranks that put equal numbers in the order of the data sets would call a constant the most telling column."""
    rare = np.zeros((2, 1000, 30))
    rare[1, :40, 17] = 1.0
    rare[:, :300, 5] = RNG.random((2, 300))

    found = _differences((rare[0], rare[1]))

    assert found.argmax() == 17
    assert found[np.delete(np.arange(30), [5, 17])].tolist() == [0.0] * 28
    assert 17 in telling_slots((rare[0], rare[1]), 1)
    z = abs(stats.rankdata(rare[..., 17]).reshape(2, -1).mean(axis=1) @ [1, -1]) / stats.rankdata(rare[..., 17]).std()
    assert found[17] == pytest.approx(z)


@pytest.mark.parametrize(
    "pool",
    [
        ["a", "b", "cc"],
        [1.5, -2.0, 0.0, 3e200, math.inf],
        ["a", 1.0, ("value", "x"), ("a", 2.0)],
        [("a", 1.0), ("b", 2.0)],
    ],
)
def test_values_of_many_outputs_are_those_of_each_by_definition(pool: list[Any]) -> None:
    rng = np.random.default_rng(3)
    outputs = [[pool[k] for k in rng.integers(0, len(pool), rng.integers(0, 9))] for _ in range(40)]
    (place,) = word_counts._vocabulary([{"p": own} for own in outputs])
    outputs += [["unseen", *pool[:2]], []]
    block = np.zeros((len(outputs), place.end))
    place.fill(block, outputs)
    for own, row in zip(outputs, block.tolist(), strict=True):
        beside = list(pairwise(own))
        numbers = [min(max(item, -1e100), 1e100) for item in own if isinstance(item, float)]
        try:
            falls = sum(one > other for one, other in beside)
        except TypeError:
            falls = 0
        counts = [own.count(item) for item in dict.fromkeys(own)]
        expected: list[float] = [own.count(item) for item in place.words]
        for item in place.ends:
            held = item in own
            expected += [own.index(item) if held else len(own), own[::-1].index(item) if held else len(own)]
        expected += [beside.count(pair) for pair in place.neighbours]
        expected += [
            len(own), sum(len(item) for item in own if isinstance(item, str)), len(counts), max(counts, default=0),
            sum(count > 1 for count in counts), sum(item not in place.words for item in own),
            sum(one == other for one, other in beside), falls, reduce(add, numbers, 0.0), min(numbers, default=0),
            max(numbers, default=0),
        ]  # fmt: skip
        assert row == expected
