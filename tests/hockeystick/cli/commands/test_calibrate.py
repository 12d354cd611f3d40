"""Tests of ``hockeystick calibrate``: closed forms, graphs with an open number, and refused options."""

from __future__ import annotations

import html
import itertools
import json
import math
import re
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import command_line
import dp_accounting
import numpy as np
import pytest
from divergences import hockey_stick
from samples import diagonal
from scipy import signal, special

import hockeystick as hs
from hockeystick._runs.calibration import MECHANISMS, Question, mechanism_named
from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    Advantage,
    EpsilonDelta,
    Gaussian,
    Laplace,
    PoissonSampled,
    PrivacyEvent,
    SampledWithoutReplacement,
    TruePositiveRate,
    calibrate,
    compose,
    epsilon,
)

run = partial(command_line.run, "calibrate")


def found(*args: object, text: str | None = None) -> dict[str, Any]:
    result = run(*args, "--json", "-", text=text)
    assert result.exit_code == 0, result.output
    plain: dict[str, Any] = json.loads(result.stdout)
    return plain


def test_laplace_noise_is_the_closed_form() -> None:
    plain = found("laplace", "--epsilon", 0.5, "--sensitivity", 3, "--count", 2)

    assert plain["value"] == pytest.approx(12.0, rel=1e-6) and plain["value"] >= 12.0 > plain["rejected"]
    assert plain["parameter"] == "scale" and plain["epsilon_upper"] <= 0.5
    assert plain["given"] == {"count": 2, "sensitivity": 3.0}


def test_a_mechanism_may_be_written_in_any_case() -> None:
    plain = found("Laplace", "--epsilon", 1)
    assert plain["what"] == "laplace"
    assert {**found("LAPLACE", "--epsilon", 1), "seconds": 0} == {**plain, "seconds": 0}
    assert mechanism_named("Discrete_Gaussian") == mechanism_named("discretegaussian") == "discrete-gaussian"
    for word, meant in (("gauss", "gaussian"), ("LaplaceMechanism", "laplace")):
        refused = run(word, "--epsilon", 1)
        assert refused.exit_code == 2
        assert f"is unknown; did you mean {meant}? give one of gaussian" in refused.stderr


@pytest.mark.parametrize("word", ["dpsgd", "DP-SGD", "dp_sgd"])
def test_dp_sgd_may_be_written_in_any_case(word: str) -> None:
    assert "--records" in run(word, "--help").output


@pytest.mark.parametrize(
    "mechanism",
    ["gaussian", "discrete-gaussian", "discrete-laplace", pytest.param("skellam", marks=pytest.mark.statistical)],
)
def test_the_found_value_meets_the_target_and_the_rejected_one_does_not(mechanism: str) -> None:
    plain = found(mechanism, "--epsilon", 1, "--delta", 1e-5)
    build = MECHANISMS[mechanism].event

    assert epsilon(build(plain["value"], 1.0), 1e-5).upper <= 1.0 < epsilon(build(plain["rejected"], 1.0), 1e-5).upper
    assert plain["epsilon_upper"] == pytest.approx(1.0, rel=1e-4)
    assert AccountantGraph.from_json(json.dumps(plain["graph"])).guarantee().epsilon(1e-5).upper <= 1.0


@pytest.mark.statistical
def test_sampled_uses_meet_the_target() -> None:
    plain = found("gaussian", "--epsilon", 1, "--delta", 1e-6, "--count", 10, "--sampling", 0.01)

    def build(sigma: float) -> PrivacyEvent:
        return compose((PoissonSampled(0.01, Gaussian(sigma)), 10))

    assert epsilon(build(plain["value"]), 1e-6).upper <= 1.0 < epsilon(build(plain["rejected"]), 1e-6).upper


@pytest.mark.statistical
def test_samples_of_fixed_size_are_under_replace_one() -> None:
    plain = found("laplace", "--epsilon", 1, "--batch", 10, "--population", 100, "--sensitivity", 1)
    other = calibrate(lambda scale: SampledWithoutReplacement(100, 10, Laplace(scale)), EpsilonDelta(1.0))

    assert plain["adjacency"] == "replace-one" and plain["value"] == pytest.approx(other.value, rel=1e-5)


RELATIONS = {"add": "add-or-remove-one", "replace": "replace-one", "null": "replace-with-null"}


def worst_of_all_tables(relation: str, sampling: float | int | None, clip: float, eps: float) -> float:
    """The largest δ(ε) over all neighbouring tables of 4 values in {−C, 0, C}: the sum of a sample, plus N(0, 1).

    Every sample is enumerated, and the mixture of normals integrated on a grid: nothing here knows of sensitivities.
    """
    x = np.linspace(-12.0, 12.0, 6001)

    def law(table: tuple[float, ...]) -> np.ndarray:
        density = np.zeros_like(x)
        for size in range(len(table) + 1):
            for chosen in itertools.combinations(table, size):
                if sampling is None:
                    weight = float(size == len(table))
                elif isinstance(sampling, int):
                    weight = (size == sampling) / math.comb(len(table), sampling)
                else:
                    weight = sampling**size * (1 - sampling) ** (len(table) - size)
                if weight:
                    density += weight * np.exp(-((x - sum(chosen)) ** 2) / 2) / math.sqrt(2 * math.pi)
        return density

    values = (-clip, 0.0, clip)
    tables: list[tuple[float, ...]] = list(itertools.combinations_with_replacement(values, 4))
    smaller: list[tuple[float, ...]] = list(itertools.combinations_with_replacement(values, 3))
    laws = {table: law(table) for table in tables + smaller}
    pairs: set[tuple[tuple[float, ...], tuple[float, ...]]] = set()
    for table in tables:
        for i in range(len(table)):
            rest = table[:i] + table[i + 1 :]
            others = {"add": [rest], "replace": [(*rest, new) for new in values], "null": [(*rest, 0.0)]}[relation]
            pairs |= {(table, tuple(sorted(other))) for other in others}
    both = [(laws[a], laws[b]) for a, b in pairs] + [(laws[b], laws[a]) for a, b in pairs]
    return max(float(hockey_stick(p, q, eps) * (x[1] - x[0])) for p, q in both)


@pytest.mark.parametrize(
    ("relation", "sampling"),
    [("add", None), ("replace", None), ("null", None), ("add", 0.3), ("null", 0.3), ("replace", 2)],
)
@pytest.mark.every(2)
def test_the_sensitivity_of_a_clip_is_that_of_the_worst_tables(relation: str, sampling: float | int | None) -> None:
    """Exact: as much noise less, and the worst pair of tables would be above the certificate."""
    clip = 0.7
    question = Question(
        "gaussian",
        sensitivity=None,
        clip=clip,
        noise=None,
        count=1,
        sampling=sampling if isinstance(sampling, float) else 1.0,
        batch=sampling if isinstance(sampling, int) else None,
        population=4 if isinstance(sampling, int) else None,
        adjacency=Adjacency(RELATIONS[relation]),
    )
    guarantee = question.graph(1.0).guarantee()
    for eps in (0.1, 0.5, 1.0):
        truth, certified = worst_of_all_tables(relation, sampling, clip, eps), guarantee.delta(eps).upper
        assert truth <= certified * (1 + 1e-5) and certified == pytest.approx(truth, rel=1e-4)


def deltas_of_worst_records(sigma: float, steps: int, share: float, moved: float, eps: float) -> tuple[float, float]:
    """δ(ε) from below and above of ``steps`` sums of secret samples in which one record, if sampled, is ``moved`` away.

    All other records equal the one world's: N(0, σ²) there, (1−γ)·N(0, σ²) + γ·N(moved, σ²) in the other. The law of
    the loss is put on a grid, rounded down or up, and convolved.
    """
    h = 5e-4
    x = np.linspace(-12 * sigma, moved + 12 * sigma, 50_001)
    loss = np.log1p(share * np.expm1((moved * x - moved**2 / 2) / sigma**2))
    cdf = (1 - share) * special.ndtr(x / sigma) + share * special.ndtr((x - moved) / sigma)
    ends = []
    for ends_of_cells in (np.floor(loss[:-1] / h), np.ceil(loss[1:] / h)):
        places = ends_of_cells.astype(int)
        law = np.bincount(places - places.min(), weights=np.diff(cdf))
        whole, start = law, int(places.min())
        for _ in range(steps - 1):
            whole = signal.fftconvolve(whole, law)
        losses = h * (steps * start + np.arange(len(whole)))
        ends.append(float(np.sum(np.maximum(whole, 0.0) * np.maximum(0.0, -np.expm1(eps - losses)))))
    return ends[0], ends[1]


@pytest.mark.statistical
def test_a_clip_in_batches_of_fixed_size_counts_twice() -> None:
    plain = found(
        "gaussian", "--batch", 5, "--population", 50, "--clip", 0.5, "--epsilon", 2, "--delta", 1e-4, "--count", 4
    )

    low, high = deltas_of_worst_records(plain["value"], 4, 0.1, 2 * 0.5, 2.0)
    assert low <= 1e-4 < 1.2 * high, "as much noise as these records need, and little more"
    assert deltas_of_worst_records(plain["value"] / 2, 4, 0.1, 2 * 0.5, 2.0)[0] > 1e-2, "half of it is far too little"
    assert plain["given"] == {"count": 4, "clip": 0.5, "batch": 5, "population": 50, "sensitivity": 1.0}
    assert plain["noise_multiplier"] * 0.5 >= plain["value"] and plain["noise_multiplier"] == plain["value"] / 0.5


@pytest.mark.statistical
def test_calibrate_and_the_accountant_agree_on_one_training_run() -> None:
    """The command for a training run on 256 of 60,000 records agrees with dp-accounting's event."""
    plain = found(
        *("gaussian", "--batch", 256, "--population", 60000, "--clip", 1),
        *("--epsilon", 3, "--delta", 1e-5, "--count", 2343),
    )
    native = dp_accounting.SampledWithoutReplacementDpEvent(60000, 256, dp_accounting.GaussianDpEvent(plain["value"]))
    told = hs.Accountant(dp_accounting.NeighboringRelation.REPLACE_ONE).compose(native, 2343).get_epsilon(1e-5)

    assert plain["value"] == pytest.approx(1.4505, abs=1e-4)
    assert told == pytest.approx(3.0, rel=1e-5) and told <= 3.0


def asked(mechanism: str, relation: str, *, clip: float | None = None, sensitivity: float | None = None) -> Question:
    rest: dict[str, Any] = {"noise": None, "count": 7, "sampling": 1.0, "batch": None, "population": None}
    return Question(mechanism, sensitivity, clip, adjacency=Adjacency(relation), **rest)


@pytest.mark.parametrize(
    ("relation", "distance"), [("add-or-remove-one", 3), ("replace-one", 6), ("replace-with-null", 3)]
)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_clip_is_a_sensitivity_of_its_own_size_or_twice_of_it(mechanism: str, relation: str, distance: float) -> None:
    by_clip, by_distance = asked(mechanism, relation, clip=3.0), asked(mechanism, relation, sensitivity=distance)

    assert by_clip.graph(500.0) == by_distance.graph(500.0)
    assert by_distance.multiplier(500.0) is None
    if mechanism == "skellam":
        assert by_clip.multiplier(500.0) is None, "its parameter is a variance"
    else:
        assert 0 <= Fraction(by_clip.multiplier(500.0) or 0.0) * 3 - 500 < Fraction(1, 10**12)


ABOUT = {
    "gaussian": "add-or-remove-one: one record added or removed moves the value by at most 1 in L2 "
    "(the default sensitivity); no sampling",
    "gaussian --sensitivity 0.25 --adjacency replace-one": "replace-one: one replaced record moves the value "
    "by at most 0.25 in L2 (from --sensitivity); no sampling",
    "gaussian --clip 0.25 --adjacency replace-with-null": "replace-with-null: one record replaced by null moves the "
    "sum by at most 0.25 in L2 (the clip 0.25); no sampling",
    "laplace --clip 0.25 --sampling 0.5": "add-or-remove-one: one record added or removed, if sampled, moves the sum "
    "by at most 0.25 in L1 (the clip 0.25); Poisson samples, each record with probability 0.5",
    "laplace --clip 0.25 --batch 3 --population 9": "replace-one: one replaced record, if sampled, moves the sum "
    "by at most 0.5 in L1 (twice the clip 0.25); samples of 3 out of 9 records, without replacement",
}


@pytest.mark.statistical
@pytest.mark.parametrize(("args", "line"), ABOUT.items(), ids=ABOUT)
def test_the_first_line_states_relation_unit_and_sampling(args: str, line: str, tmp_path: Path) -> None:
    files = [str(word) for kind in ("json", "html", "markdown") for word in (f"--{kind}", tmp_path / kind)]
    result = run(*args.split(), "--epsilon", "1", "--delta", "0.01", *files)

    assert result.exit_code == 0 and re.match(f"{re.escape(line)} (sigma|scale) = ", " ".join(result.stdout.split()))
    plain = json.loads((tmp_path / "json").read_text(encoding="utf-8"))
    assert f"{plain['adjacency']}: {plain['unit']}; {plain['sampling']}" == line
    page = html.unescape((tmp_path / "html").read_text(encoding="utf-8"))
    assert f'<p class="about">{line}</p>' in page
    comment = (tmp_path / "markdown").read_text(encoding="utf-8").replace("\\", "")
    assert comment.split("\n")[2] == line


@pytest.mark.statistical
def test_other_numbers_can_be_open() -> None:
    uses = found("laplace", "--find", "count", "--noise", 8, "--epsilon", 1)
    assert (uses["parameter"], uses["value"], uses["rejected"]) == ("count", 8, 9) and uses["whole"]
    share = found("laplace", "--find", "sampling", "--noise", 1, "--epsilon", 0.5)
    exact = math.expm1(0.5) / math.expm1(1.0)  # amplification by sampling of pure ε
    assert share["value"] == pytest.approx(exact, rel=1e-5) and share["value"] <= exact


def test_targets_of_attacks() -> None:
    by_advantage = found("gaussian", "--advantage", 0.1)
    assert by_advantage["value"] == pytest.approx(calibrate(Gaussian, Advantage(0.1)).value, rel=1e-5)
    assert by_advantage["delta"] == 1e-6 and by_advantage["target"] == {"advantage": 0.1}
    by_rate = found("gaussian", "--tpr", 0.05, "--fpr", 0.01, "--delta", 1e-9)
    assert by_rate["value"] == pytest.approx(calibrate(Gaussian, TruePositiveRate(0.05, 0.01)).value, rel=1e-5)
    assert by_rate["delta"] == 1e-9


def template(**changes: Any) -> str:
    graph = AccountantGraph().source("people").release("mean", Gaussian(1.0), reads=["people"])
    data = json.loads(graph.release("count", Laplace(4.0), reads=["people"]).to_json())
    for place, value in changes.items():
        node = data["nodes"][{"people": 0, "mean": 1, "count": 2}[place]]
        node.get("event", node).update(value)
    return json.dumps(data)


@pytest.mark.statistical
def test_a_graph_with_an_open_number(tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text(template(mean={"noise_multiplier": "?"}))
    plain = found(tmp_path / "graph.json", "--epsilon", 1, "--delta", 1e-6, "--graph", tmp_path / "found.json")
    other = calibrate(lambda sigma: compose(Gaussian(sigma), Laplace(4.0)), EpsilonDelta(1.0, 1e-6))

    assert plain["parameter"] == "mean.noise_multiplier" and plain["value"] == pytest.approx(other.value, rel=1e-5)
    assert json.loads((tmp_path / "found.json").read_text()) == plain["graph"]
    account = command_line.run("account", tmp_path / "found.json", "--delta", "1e-6", "--json", "-")
    assert json.loads(account.stdout)["epsilon_upper"] == plain["epsilon_upper"] <= 1.0


@pytest.mark.statistical
def test_one_number_in_two_places_and_a_number_of_times() -> None:
    both = template(mean={"noise_multiplier": "?"}, count={"noise_multiplier": "?"})
    plain = found("-", "--epsilon", 1, "--delta", 1e-6, text=both)
    assert plain["parameter"] == "mean.noise_multiplier, count.noise_multiplier"
    values = {node["event"]["noise_multiplier"] for node in plain["graph"]["nodes"][1:]}
    assert values == {plain["value"]}
    times = json.loads(template())
    times["nodes"][2]["count"] = "?"
    plain = found("-", "--epsilon", 10, "--delta", 0.1, text=json.dumps(times))
    assert plain["whole"] and plain["rejected"] == plain["value"] + 1 == plain["graph"]["nodes"][2]["count"] + 1


@pytest.mark.statistical
def test_an_open_share_stays_below_one() -> None:
    graph = AccountantGraph().source("people").release("count", PoissonSampled(0.5, Laplace(1.0)), reads=["people"])
    data = json.loads(graph.to_json())
    data["nodes"][1]["event"]["probability"] = "?"
    plain = found("-", "--epsilon", 0.5, text=json.dumps(data))
    exact = math.expm1(0.5) / math.expm1(1.0)  # amplification by sampling of pure ε
    assert plain["parameter"] == "count.probability" and plain["value"] == pytest.approx(exact, rel=1e-5)
    every = run("-", "--epsilon", 2, text=json.dumps(data))
    assert every.exit_code == 0 and "up to the end of the range that was searched" in every.stderr
    assert "probability = 1.0" in every.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("gauss --epsilon 1", "give one of gaussian, laplace"),
        ("gaussian --epsilon 1", "--delta is missing"),
        ("gaussian --delta 1e-6", "give one target"),
        ("gaussian --epsilon 1 --advantage 0.1", "give one target"),
        ("gaussian --tpr 0.1", "a bound on membership attacks needs --fpr"),
        ("gaussian --tpr 0.1 --fpr 0.2", "--tpr"),
        ("laplace --epsilon 1 --noise 1", "--noise can't be combined with --find noise"),
        ("laplace --epsilon 1 --find count", "--find count needs --noise"),
        ("laplace --epsilon 1 --batch 3", "needs --population"),
        ("laplace --epsilon 1 --batch 3 --population 9 --sampling 0.1", "can't be combined with --batch"),
        ("laplace --epsilon 1 --batch 3 --population 2 --clip 1", "larger than population"),
        ("laplace --epsilon 1 --batch 3 --population 9", "has sensitivity 2·C. Give --clip C"),
        ("laplace --epsilon 1 --clip 1 --sensitivity 2", "--sensitivity can't be combined with --clip"),
        ("laplace --epsilon 1 --clip 1e308", "--clip is too large"),
        ("- --epsilon 1 --clip 3", "--clip is for a named mechanism"),
        ("laplace --epsilon 1 --batch 3 --population 9 --adjacency add-or-remove-one", "needs --adjacency replace-one"),
        ("laplace --epsilon 1 --sampling 0.1 --adjacency replace-one", "--batch and --population"),
        ("laplace --epsilon nan", "nan"),
        ("missing.json --epsilon 1", "there is no such file"),
        ("- --epsilon 1", 'write "?" in place'),
        ("- --epsilon 1 --count 3", "--count is for a named mechanism"),
        ("- --epsilon 1 --find count", "--find is for a named mechanism"),
        ("laplace --epsilon 1 --json same --graph same", "the file of another result"),
    ],
)
def test_bad_options_are_refused(args: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*args.split(), text=template())

    assert (result.exit_code, result.stdout) == (2, "") and said in result.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"nodes": [{"name": "?"}]}', '{"nodes": [{"kind": "source", "size": "?"}]}']
)
def test_templates_that_are_not_graphs_are_refused(text: str) -> None:
    result = run("-", "--epsilon", 1, "--delta", 1e-6, text=text)

    assert result.exit_code == 2 and "internal error" not in result.stderr


def test_a_target_that_no_value_meets_is_reported() -> None:
    result = run("-", "--epsilon", 1, text=template(count={"noise_multiplier": "?"}))

    assert (
        result.exit_code == 2 and "does not depend on the number sought" in result.stderr
    )  # the other release has no ε at δ = 0


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("suffix", "what"),
    diagonal(
        ["png", "svg", "pdf"], ["gaussian --epsilon 1 --delta 1e-6", "laplace --find count --noise 8 --epsilon 1"]
    ),
)
def test_a_picture_is_written_in_the_format_of_its_suffix(suffix: str, what: str, tmp_path: Path) -> None:
    file = tmp_path / f"noise.{suffix}"
    result = run(*what.split(), "--plot", str(file))

    assert result.exit_code == 0, result.output
    assert file.read_bytes()[:5].startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix])


@pytest.mark.deep
def test_a_training_has_a_picture_too(tmp_path: Path) -> None:
    file = tmp_path / "noise.svg"
    training = "dp-sgd --records 600 --batch 60 --epochs 1 --epsilon 2 --delta 1e-5"
    result = run(*training.split(), "--plot", str(file))

    assert result.exit_code == 0 and "</svg>" in file.read_text(encoding="utf-8"), result.output


def test_a_picture_of_an_unknown_format_is_refused_before_the_work(tmp_path: Path) -> None:
    result = run("gaussian", "--epsilon", "1", "--delta", "1e-6", "--plot", str(tmp_path / "noise.txt"))

    assert result.exit_code == 2 and "name it .png, .svg or .pdf" in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_picture_needs_a_file_of_its_own(tmp_path: Path) -> None:
    file = str(tmp_path / "noise.svg")
    result = run("gaussian", "--epsilon", "1", "--delta", "1e-6", "--plot", file, "--graph", file)

    assert result.exit_code == 2 and "is the file of another result too" in result.stderr
