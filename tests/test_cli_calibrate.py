"""``hockeystick calibrate``: closed forms, graphs with an open number, and what is refused."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import command_line
import pytest

from hockeystick.accounting import (
    AccountantGraph,
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


@pytest.mark.parametrize(
    "mechanism", ["gaussian", "discrete-gaussian", "discrete-laplace", pytest.param("skellam", marks=pytest.mark.slow)]
)
def test_what_is_found_meets_the_target_and_what_is_rejected_does_not(mechanism: str) -> None:
    from hockeystick.calibrate_graph import MECHANISMS

    plain = found(mechanism, "--epsilon", 1, "--delta", 1e-5)
    build = MECHANISMS[mechanism].event

    assert epsilon(build(plain["value"], 1.0), 1e-5).upper <= 1.0 < epsilon(build(plain["rejected"], 1.0), 1e-5).upper
    assert plain["epsilon_upper"] == pytest.approx(1.0, rel=1e-4)
    assert AccountantGraph.from_json(json.dumps(plain["graph"])).guarantee().epsilon(1e-5).upper <= 1.0


@pytest.mark.slow
def test_sampled_uses_meet_the_target() -> None:
    plain = found("gaussian", "--epsilon", 1, "--delta", 1e-6, "--count", 10, "--sampling", 0.01)

    def build(sigma: float) -> PrivacyEvent:
        return compose((PoissonSampled(0.01, Gaussian(sigma)), 10))

    assert epsilon(build(plain["value"]), 1e-6).upper <= 1.0 < epsilon(build(plain["rejected"]), 1e-6).upper


def test_samples_of_fixed_size_are_under_replace_one() -> None:
    plain = found("laplace", "--epsilon", 1, "--batch", 10, "--population", 100)
    other = calibrate(lambda scale: SampledWithoutReplacement(100, 10, Laplace(scale)), EpsilonDelta(1.0))

    assert plain["adjacency"] == "replace-one" and plain["value"] == pytest.approx(other.value, rel=1e-5)


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


def test_a_graph_with_an_open_number(tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text(template(mean={"noise_multiplier": "?"}))
    plain = found(tmp_path / "graph.json", "--epsilon", 1, "--delta", 1e-6, "--graph", tmp_path / "found.json")
    other = calibrate(lambda sigma: compose(Gaussian(sigma), Laplace(4.0)), EpsilonDelta(1.0, 1e-6))

    assert plain["parameter"] == "mean.noise_multiplier" and plain["value"] == pytest.approx(other.value, rel=1e-5)
    assert json.loads((tmp_path / "found.json").read_text()) == plain["graph"]
    account = command_line.run("account", tmp_path / "found.json", "--delta", "1e-6", "--json", "-")
    assert json.loads(account.stdout)["epsilon_upper"] == plain["epsilon_upper"] <= 1.0


@pytest.mark.slow
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


def test_an_open_share_stays_below_one() -> None:
    graph = AccountantGraph().source("people").release("count", PoissonSampled(0.5, Laplace(1.0)), reads=["people"])
    data = json.loads(graph.to_json())
    data["nodes"][1]["event"]["probability"] = "?"
    plain = found("-", "--epsilon", 0.5, text=json.dumps(data))
    exact = math.expm1(0.5) / math.expm1(1.0)  # amplification by sampling of pure ε
    assert plain["parameter"] == "count.probability" and plain["value"] == pytest.approx(exact, rel=1e-5)
    every = run("-", "--epsilon", 2, text=json.dumps(data))
    assert every.exit_code == 0 and "up to the end of the open number's domain" in every.stderr
    assert "probability = 1.0" in every.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("gauss --epsilon 1", "give one of gaussian, laplace"),
        ("gaussian --epsilon 1", "--delta missing"),
        ("gaussian --delta 1e-6", "give one target"),
        ("gaussian --epsilon 1 --advantage 0.1", "give one target"),
        ("gaussian --tpr 0.1", "a rate of attacks needs --fpr"),
        ("gaussian --tpr 0.1 --fpr 0.2", "--tpr"),
        ("laplace --epsilon 1 --noise 1", "--noise is what --find noise finds"),
        ("laplace --epsilon 1 --find count", "--find count needs --noise"),
        ("laplace --epsilon 1 --batch 3", "needs --population"),
        ("laplace --epsilon 1 --batch 3 --population 9 --sampling 0.1", "can't be combined with --batch"),
        ("laplace --epsilon 1 --batch 3 --population 2", "larger than population"),
        ("laplace --epsilon 1 --batch 3 --population 9 --adjacency add-or-remove-one", "under replace-one"),
        ("laplace --epsilon 1 --sampling 0.1 --adjacency replace-one", "--batch and --population"),
        ("laplace --epsilon nan", "nan"),
        ("missing.json --epsilon 1", "there is no such file"),
        ("- --epsilon 1", 'write "?" in place'),
        ("- --epsilon 1 --count 3", "--count belongs to a named mechanism"),
        ("- --epsilon 1 --find count", "--find belongs to a named mechanism"),
        ("laplace --epsilon 1 --json same --graph same", "another result's file"),
    ],
)
def test_what_is_refused(args: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*args.split(), text=template())

    assert (result.exit_code, result.stdout) == (2, "") and said in result.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"nodes": [{"name": "?"}]}', '{"nodes": [{"kind": "source", "size": "?"}]}']
)
def test_templates_that_are_no_graphs(text: str) -> None:
    result = run("-", "--epsilon", 1, "--delta", 1e-6, text=text)

    assert result.exit_code == 2 and "internal error" not in result.stderr


def test_no_value_that_meets_the_target_is_said_so() -> None:
    result = run("-", "--epsilon", 1, text=template(count={"noise_multiplier": "?"}))

    assert result.exit_code == 2 and "no value from" in result.stderr  # the other release has no ε at δ = 0
