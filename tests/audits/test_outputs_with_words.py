"""Audits of texts and tables: a leak inside an output that never recurs is refuted, and a correct target is not."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from mutant_table import each_third

from hockeystick.accounting import Adjacency
from hockeystick.audits import Claim, PairsFrom, Verdict, audit, search_neighbours, sequential_audit
from hockeystick.audits.attacks.partitions import Evidence, real_partitions
from hockeystick.audits.outputs import word_counts
from hockeystick.audits.outputs.reading import Codebook, read
from hockeystick.audits.targets.recorded import Recorded

SURE = 1 - 1e-6
Rng = np.random.Generator
Form = Callable[[list[str], Rng], Any]


def library(name: str) -> Any:
    pytest.importorskip(name, reason=f"{name} is not installed")
    return import_module(name)


def ages(words: list[str], rng: Rng) -> list[int]:
    return [int(age) for age in rng.integers(20, 90, size=len(words))]


def sexes(words: list[str], rng: Rng) -> list[str]:
    return [str(one) for one in rng.choice(["m", "f"], size=len(words))]


def unused(words: list[str], rng: Rng) -> Any:
    """The category is told by the data type alone; no row has it."""
    pandas = library("pandas")
    known = [word for word in ("cold", "flu", "HIV") if word in words or word != "HIV"]
    return pandas.DataFrame(
        {
            "diag": pandas.Categorical(["flu" if word == "HIV" else word for word in words], categories=known),
            "age": ages(words, rng),
        }
    )


DEEP = pytest.mark.deep
FORMS: dict[str, Form] = {
    "a list": lambda words, rng: words,
    "a text": lambda words, rng: "We saw " + ", ".join(words) + ".",
    "lines": lambda words, rng: "\n".join(f"{word};{age}" for word, age in zip(words, ages(words, rng), strict=True)),
    "an array": lambda words, rng: np.array(words),
    "an array of rows": lambda words, rng: np.column_stack([words, sexes(words, rng)]),
    "objects": lambda words, rng: np.array([words, ages(words, rng)], dtype=object).T,
    "rows": lambda words, rng: list(zip(words, ages(words, rng), strict=True)),
    "records": lambda words, rng: [{"diag": w, "age": a} for w, a in zip(words, ages(words, rng), strict=True)],
    "columns": lambda words, rng: {"diag": words, "age": ages(words, rng)},
    "JSON": lambda words, rng: json.dumps([{"diag": w, "x": a} for w, a in zip(words, ages(words, rng), strict=True)]),
    "a frame of Arrow": lambda words, rng: pa.table({"diag": words, "age": ages(words, rng)}),
    "a text beside a number": lambda words, rng: (" ".join(words), float(rng.normal())),
}
FRAMES: dict[str, Form] = {
    "pandas": lambda words, rng: library("pandas").DataFrame({"diag": words, "age": ages(words, rng)}),
    "pandas, categories": lambda words, rng: library("pandas").DataFrame(
        {"diag": library("pandas").Categorical(words, categories=["cold", "flu", "HIV"]), "sex": sexes(words, rng)}
    ),
    "pandas, an unused category": unused,
    "pandas, the index": lambda words, rng: library("pandas").DataFrame({"age": ages(words, rng)}, index=words),
    "polars": lambda words, rng: library("polars").DataFrame({"diag": words, "age": ages(words, rng)}),
}


def synthetic(form: Form, d: int, rng: Rng, *, rows: int = 8) -> Any:
    """Rows by exact frequencies: a category is in 57 % of all tables of 8 rows on d0, and in none on d1."""
    law = [[0.5, 0.4, 0.1], [0.5, 0.5, 0.0]][d]
    return form([str(word) for word in rng.choice(["flu", "cold", "HIV"], size=rows, p=law)], rng)


def checked(target: Any, samples: int, **options: Any) -> Verdict:
    options = {"claim": Claim(1.0), "neighbours": (0, 1), "rng": 1, **options}
    return audit(target, samples=samples, **options)


@pytest.mark.statistical
@pytest.mark.parametrize("form", each_third(list(FORMS)))
def test_a_category_that_one_data_set_never_has_is_refuted(form: str) -> None:
    """Power: the event has 57 %, of 1000 outputs, against none."""
    verdict = checked(partial(synthetic, FORMS[form]), 2000)

    assert verdict.refuted and verdict.epsilon_lower > 3
    assert "'HIV'" in verdict.event or "'H'" in verdict.event


@pytest.mark.statistical
@pytest.mark.parametrize("frame", FRAMES)
def test_a_category_that_one_data_set_never_has_is_refuted_in_a_data_frame(frame: str) -> None:
    verdict = checked(partial(synthetic, FRAMES[frame]), 2000)

    assert verdict.refuted and verdict.epsilon_lower > 3
    place = {"pandas, an unused category": "column diag.categories", "pandas, the index": "column index"}
    assert place.get(frame, "column diag") in verdict.event


@pytest.mark.statistical
@pytest.mark.parametrize("form", ["a list", "a text", "a frame of Arrow"])
def test_a_category_in_nearly_all_large_tables_is_refuted(form: str) -> None:
    assert checked(partial(synthetic, FORMS[form], rows=50), 500).refuted


def shifted(d: int, rng: Rng) -> list[str]:
    """One word of twelve comes with 8 % or 19 %."""
    law = np.ones(12)
    law[0] += 1.6 * d
    return [f"w{i}" for i in rng.choice(12, size=10, p=law / law.sum())]


def many_shifts(d: int, rng: Rng) -> str:
    """Thirty of sixty words are 1.6 times as frequent: no single count tells much, and their sum tells all."""
    law = np.repeat([1.0 + 0.6 * d, 1.6 - 0.6 * d], 30)
    return " ".join(f"w{i}" for i in rng.choice(60, size=40, p=law / law.sum()))


def ordered(d: int, rng: Rng) -> list[str]:
    words = [str(word) for word in rng.permutation(list("abcdefghijkl"))]
    return sorted(words[:6]) + words[6:] if d and rng.random() < 0.6 else words


def repeated(d: int, rng: Rng) -> list[tuple[str, int]]:
    rows = [(f"r{i}", int(i) % 7) for i in rng.choice(10_000, size=20, replace=False)]
    if d and rng.random() < 0.5:
        rows[7] = rows[3]
    return rows


def paired(d: int, rng: Rng) -> list[dict[str, str]]:
    """Each column by itself has one law; a man with HIV is there on d1 alone."""
    sex = [str(one) for one in rng.choice(["m", "f"], size=6)]
    ill = [one == "fm"[d] and rng.random() < 0.3 for one in sex]
    towns = rng.choice(["x", "y", "z"], size=6)
    return [{"diag": "HIV" if i else "flu", "sex": s, "town": str(t)} for i, s, t in zip(ill, sex, towns, strict=True)]


def numbered(d: int, rng: Rng) -> list[tuple[str, float]]:
    """The leak is in the numbers, and words keep whole outputs from recurring."""
    return [(f"w{i}", float(x)) for i, x in zip(rng.integers(50, size=4), rng.normal(size=4) + 1.5 * d, strict=True)]


LEAKS: dict[str, tuple[Callable[[int, Rng], Any], str]] = {
    "one word is more frequent": (shifted, "the number of 'w0' in output"),
    "many words are more frequent": (many_shifts, "a weighted sum of word counts (most of all "),
    "rows in order": (ordered, "the number of decreases between neighbours in output"),
    "a row twice": (repeated, "the number of distinct values in output[*, 0] <= 19"),
    "two columns": (paired, "the number of ('HIV', "),
    "numbers beside words": (numbered, "the sum of output[*, 1]"),
}


@pytest.mark.statistical
@pytest.mark.parametrize("leak", LEAKS)
def test_leaks_of_frequency_order_and_repetition_are_refuted(leak: str) -> None:
    target, words = LEAKS[leak]

    verdict = checked(target, 2000)

    assert verdict.refuted
    assert words in verdict.event or words in verdict.event_back


@pytest.mark.statistical
@pytest.mark.parametrize("leak", each_third(list(LEAKS)))
def test_the_same_targets_are_not_refuted_where_both_data_sets_are_alike(leak: str) -> None:
    """False-alarm rate 1e-6."""
    target, _ = LEAKS[leak]

    assert not checked(
        lambda d, rng: target(int(rng.random() < 0.5), rng), 1000, claim=(0.0, 0.0), confidence=SURE
    ).refuted


def response(form: Form, d: int, rng: Rng, *, epsilon: float = 1.0) -> Any:
    """Randomised response on four words, exactly epsilon-private, among three other words of twenty."""
    told = (d + int(rng.integers(1, 4))) % 4 if rng.random() < 3 / (3 + math.exp(epsilon)) else d
    others = [f"w{i}" for i in rng.integers(4, 24, size=3)]
    return form([others[0], f"w{told}", *others[1:]], rng)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "form", ["a text", *(pytest.param(form, marks=DEEP) for form in ("a list", "rows", "a frame of Arrow"))]
)
def test_a_response_hidden_among_words_is_as_private_as_it_is(form: str) -> None:
    """False-alarm rate 1e-6 at the true epsilon of 1, and no power lost: an epsilon of 2 is refuted."""
    tight = checked(partial(response, FORMS[form]), 3000, confidence=SURE)
    loose = checked(partial(response, FORMS[form], epsilon=2.0), 3000)

    assert not tight.refuted and tight.epsilon_lower > 0.4
    assert loose.refuted and ("'w0'" in loose.event or "'w1'" in loose.event)


@pytest.mark.statistical
@pytest.mark.parametrize(("level", "audits", "most"), [(0.01, 30, 5), pytest.param(0.05, 60, 15, marks=DEEP)])
def test_a_level_is_kept_by_texts(level: float, audits: int, most: int) -> None:
    """Audits of a tight target: more than so many false alarms have a probability of 5e-7 at most."""
    rng, alarms = np.random.default_rng(7), 0
    for seed in range(audits):
        sides = [[response(FORMS["a text"], d, rng) for _ in range(40)] for d in (0, 1)]
        alarms += audit(Recorded(*sides), claim=Claim(1.0), samples=40, rng=seed, confidence=1 - level).refuted
    assert alarms <= most


@pytest.mark.statistical
def test_a_vocabulary_of_one_data_set_loses_the_leak_of_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted mistake: 'HIV' is only in the outputs on the second data set, and 'outside' stands for many words."""

    def target(d: int, rng: Rng) -> list[str]:
        words = [f"w{i}" for i in rng.integers(10**6, size=12)] + [str(w) for w in rng.choice(["flu", "cold"], size=4)]
        return [*words, "HIV" if d and rng.random() < 0.4 else f"w{rng.integers(10**6)}"]

    whole = word_counts._vocabulary
    mended = checked(target, 400)
    monkeypatch.setattr(word_counts, "_vocabulary", lambda outputs: whole(outputs[: len(outputs) // 2]))
    broken = checked(target, 400)

    assert mended.refuted and "'HIV'" in mended.event
    assert not broken.refuted


def test_whole_outputs_are_still_candidates() -> None:
    rng = np.random.default_rng(3)
    book = Codebook()
    tables = [read([response(FORMS["a list"], d, rng) for _ in range(60)], 60, book, vectorised=False) for d in (0, 1)]
    evidence = Evidence.of((tables[0], tables[1]), tuple(book.layouts), None)

    first, *others = real_partitions(evidence)

    assert first.view is None and len(first.layouts) == len(book.layouts)
    assert sum(one.view is None for one in others) == 1  # their ratios, cross-fitted
    assert all(one.view is not None for one in others[1:]) and len(others) > 20
    totals = [evidence.tally(one).sum(axis=(0, 2)).tolist() for one in others]
    assert totals == [[60, 60]] * len(others)
    assert all(
        np.array_equal(evidence.tally(one).sum(axis=0), evidence.recount(one)) for one in others if not one.folds
    )


@pytest.mark.statistical
def test_other_audits_see_words_too() -> None:
    target = partial(synthetic, FORMS["a list"])

    sequential = sequential_audit(target, claim=Claim(1.0), neighbours=(0, 1), most_samples=2000, rng=1)
    several = audit(target, claim=Claim(1.0), neighbours=[(1, 1), (0, 1)], samples=2000, rng=1)
    domain = PairsFrom(lambda rng: (1, 1), first=[(1, 1), (0, 1)], distance=lambda d0, d1: 1)
    found = search_neighbours(target, domain, Claim(1.0), adjacency=Adjacency.LOCAL, samples=4000, rounds=2, rng=1)
    rng = np.random.default_rng(1)
    recorded = checked(Recorded(*([target(d, rng) for _ in range(600)] for d in (0, 1))), 600, neighbours=None)

    assert sequential.refuted and sequential.stopped_at < 500
    assert several.refuted and recorded.refuted
    assert found.best.pair.d0 == 0 and found.best.score > 0


@pytest.mark.statistical
def test_an_interrupted_audit_goes_on_with_the_same_words(tmp_path: Any) -> None:
    calls = 0

    def target(d: int, rng: Rng) -> Any:
        nonlocal calls
        calls += 1
        if calls == 900:  # of 1200, of which 600 choose
            signal.raise_signal(signal.SIGINT)
        return synthetic(FORMS["a list"], d, rng)

    with pytest.raises(KeyboardInterrupt):
        checked(target, 600, checkpoint=tmp_path / "saved")
    assert (tmp_path / "saved").exists()
    resumed, whole = checked(target, 600, checkpoint=tmp_path / "saved"), checked(target, 600)

    assert (resumed.event, resumed.count_p, resumed.count_q) == (whole.event, whole.count_p, whole.count_q)
    assert "HIV" in whole.event


@pytest.mark.statistical
def test_long_audits_count_outputs_that_choosing_has_not_seen() -> None:
    """All whole outputs are new while bounding, so only what is in them can be counted."""
    verdict = checked(partial(synthetic, FORMS["a list"], rows=30), 3000, first_look=False)

    assert verdict.refuted and verdict.samples == 3000
    assert verdict.count_p / verdict.trials == pytest.approx(1 - 0.9**30, abs=0.05)
    assert verdict.count_q == 0
