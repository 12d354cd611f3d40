"""Tests of ``hockeystick kl``: estimates, watches and plans from tables, their JSON and reports, refused and hidden
values."""

from __future__ import annotations

import json
import math
import re
from functools import partial
from pathlib import Path
from typing import Any

import command_line
import numpy as np
import pytest
from command_line import assert_refused

from hockeystick._files.symbol_tables import read_records, read_reference
from hockeystick._runs.kl import Randomness, bits
from hockeystick.accounting import Adjacency, DurableLedger, PureFilter, RDPFilter
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.count_logarithms import Harmonic
from hockeystick.learners.divergence.distributed import DistributedKL
from hockeystick.learners.divergence.drift.alarms import DriftAlarms
from hockeystick.learners.divergence.drift.look import drift_look
from hockeystick.learners.divergence.drift.monitor import DriftMonitor
from hockeystick.learners.divergence.drift.noisy_histogram import release_histogram
from hockeystick.learners.divergence.noisy_estimates import estimates
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.learners.divergence.trusted import AggregatedKL, TrustedKL
from hockeystick.mechanisms.randomness.noise import SimulationNoise

TARGET = ["--epsilon", "2", "--delta", "1e-6", "--method", "priest"]
NAMES = ["a", "b", "c", "d"]
PI = [0.4, 0.3, 0.2, 0.1]
CLIENTS, EACH = 40, 6

run, result_of = partial(command_line.run, "kl"), partial(command_line.result_of, "kl")


@pytest.fixture
def tables(tmp_path: Path) -> list[str]:
    reference, clients = tmp_path / "R.csv", tmp_path / "C.csv"
    reference.write_text("symbol,probability\n" + "".join(f"{s},{p}\n" for s, p in zip(NAMES, PI, strict=True)))
    rng = np.random.default_rng(1)
    lines = ["user,symbol,day"]
    for day, p in enumerate([PI, PI[::-1], PI]):
        for user in range(CLIENTS):
            lines += [f"user-{user},{symbol},{day + 1}" for symbol in rng.choice(NAMES, EACH, p=p)]
    clients.write_text("\n".join(lines))
    return ["--reference", str(reference), "--clients", str(clients), "--client-column", "user"]


def counted(tables: list[str], **more: Any) -> ClientCounts:
    reference = read_reference(tables[1], column="symbol")
    return read_records(tables[3], reference, column="symbol", client_column="user", **more).counts()


# --- estimates -------------------------------------------------------------------------------------------------------


def test_an_estimate_is_the_librarys(tables: list[str]) -> None:
    found = result_of(*tables, *TARGET, "--seed", "5", "--samples", "30", "--multiplier", "0.5")

    data, randomness = counted(tables), Randomness.of(5)
    average = QueryAverage.drawn(PI, data.records(), samples=30, rng=randomness.coins)
    learner = TrustedKL.calibrated(average, epsilon=2.0, delta=1e-6, multiplier=0.5)
    known = learner.release(data, noise=randomness.noise)
    assert found["estimate"] == known.estimate and found["noise_deviation"] == known.noise_deviation
    assert found["epsilon"] == learner.graph().guarantee().epsilon(1e-6).upper <= 2.0
    assert (found["mode"], found["model"], found["learner"], found["seed"]) == (
        "simulation",
        "trusted",
        "kl-trusted",
        5,
    )
    assert (found["clients"], found["records"], found["symbols"]) == (CLIENTS, 3 * CLIENTS * EACH, 4)
    assert result_of(*tables, *TARGET, "--seed", "5", "--samples", "30", "--multiplier", "0.5") == found


@pytest.mark.parametrize(
    ("options", "model", "threat"),
    [
        ("", "trusted", "trusted"),
        ("--noise laplace --logarithm harmonic --cohort 20", "trusted", "trusted"),
        (
            "--model aggregated --noise gaussian --cohort 5 --cohort-mode independent --samples 9",
            "aggregated",
            "aggreg",
        ),
        ("--model dist --shares polya --delta 0 --survivors 30", "dist", "no party"),
        ("--model dist --shares discrete-gaussian --cohort 4 --cohort-mode disjoint --samples 10", "dist", "no party"),
        pytest.param("--model dist --group 3 --pseudo-count 0.5", "dist", "no party", marks=pytest.mark.statistical),
        ("--group 3", "trusted", "trusted"),
    ],
)
def test_each_model_is_run(tables: list[str], options: str, model: str, threat: str, tmp_path: Path) -> None:
    text = run(*tables, *TARGET, *options.split(), "--json", str(tmp_path / "out.json"))
    found = json.loads((tmp_path / "out.json").read_text())

    assert found["model"] == model and threat in found["threat_model_note"]
    assert np.isfinite(found["estimate"]) and found["noise_deviation"] > 0.0
    assert 0.0 < found["epsilon"] <= 2.0 and found["bits_up"] >= found["answers"] > 0
    words = " ".join(text.stdout.split())
    assert text.exit_code == 0
    for said in ("simulated: KL = ", "certified", "assumes", "standard deviation", "bits to this client", "public"):
        assert said in words
    assert float(words.split("ε ≤ ")[1].split()[0]) >= found["epsilon"]
    assert "don't publish this run" in text.stderr


@pytest.mark.statistical
def test_the_estimate_follows_from_the_published_values(tables: list[str]) -> None:
    found = result_of(*tables, *TARGET, "--model", "dist", "--samples", "50")
    published = found["published"]
    assert published["symbols"] == NAMES
    average = QueryAverage.drawn(PI, counted(tables).records(), samples=50, rng=Randomness.of(0).coins)
    assert found["estimate"] == float(estimates(average, published["noisy_counts"], 1.0))
    pair = result_of(*tables, *TARGET, "--model", "aggregated", "--multiplier", "0.7")
    assert pair["estimate"] == pytest.approx(0.7 * pair["published"]["ratios"] - pair["published"]["logs"])


@pytest.mark.statistical
def test_noise_of_counts_by_first_order(tables: list[str]) -> None:
    """Against 4000 simulated estimates: by a tenth off would be nine standard deviations. A fixed seed."""
    found = result_of(*tables, *TARGET, "--model", "dist", "--multiplier", "0", "--epsilon", "1")
    data = counted(tables)
    average = QueryAverage.drawn(PI, data.records(), samples=1000, rng=Randomness.of(0).coins)
    learner = DistributedKL.calibrated(average, epsilon=1.0, delta=1e-6)
    spread = estimates(average, learner.simulate(data, np.random.default_rng(3), 4000)).std()
    assert found["noise_deviation"] == pytest.approx(spread, rel=0.15)


@pytest.mark.statistical
@pytest.mark.parametrize("model", ["trusted", "aggregated", "dist"])
def test_all_symbols_are_collected_if_there_are_enough_draws(tables: list[str], model: str) -> None:
    """Nothing is sampled in that case, and the result says so; for fewer draws it states their deviation."""
    found = result_of(*tables, *TARGET, "--model", model, "--samples", "4")
    assert found["parameters"]["symbols asked for"] == 4 and found["sampling_deviation"] == 0.0
    if model == "trusted":
        assert "no error: all symbols were queried" in run(*tables, *TARGET).stdout
    fewer = result_of(*tables, *TARGET, "--model", model, "--samples", "3")
    assert fewer["parameters"]["symbols asked for"] < 4 and fewer["sampling_deviation"] != 0.0


@pytest.mark.statistical
def test_how_far_draws_move_an_estimate_of_noisy_counts(tables: list[str], tmp_path: Path) -> None:
    """About: 200 symbols, 100 draws, against 400 other draws; within a factor of 1.5."""
    pi = 1.0 / np.arange(1.0, 201.0)
    pi /= pi.sum()
    reference, clients, rng = tmp_path / "R.csv", tmp_path / "C.csv", np.random.default_rng(5)
    reference.write_text("symbol,probability\n" + "".join(f"{i},{p:.17g}\n" for i, p in enumerate(pi)))
    clients.write_text(
        "client,symbol,count\n" + "".join(f"0,{i},{n}\n" for i, n in enumerate(rng.multinomial(10**6, pi[::-1])))
    )
    files = ["--reference", str(reference), "--clients", str(clients), "--model", "dist", "--multiplier", "0"]
    found = result_of(*files, "--epsilon", "8", "--delta", "1e-6", "--samples", "100")
    held = read_records(
        str(clients), read_reference(str(reference), column="symbol"), column="symbol", client_column="client"
    ).counts()
    plans = [
        QueryAverage.drawn(pi / math.fsum(pi), held.records(), samples=100, rng=np.random.default_rng(i))
        for i in range(400)
    ]
    spread = float(np.std([plan.value(held, 0.0) for plan in plans]))
    assert spread / 1.5 < found["sampling_deviation"] < 1.5 * spread


def test_communication_is_reported_in_bits(tables: list[str]) -> None:
    """Two bits name one of four symbols; ten hold a sum of 720 records, and more if noise is on it."""
    found = result_of(*tables, *TARGET, "--samples", "400")
    assert (found["answers"], found["bits_down"], found["bits_up"]) == (4, 8, 40)
    found = result_of(*tables, *TARGET, "--samples", "400", "--model", "dist")
    assert (found["bits_down"], found["bits_up"]) == (8, 44)
    some = result_of(*tables, *TARGET, *["--samples", "10", "--cohort", "4", "--cohort-mode", "disjoint"])
    assert (some["answers"], some["bits_down"]) == (1, 2)
    several = result_of(*tables, *TARGET, *["--samples", "10", "--cohort", "39", "--cohort-mode", "independent"])
    assert several["answers"] == 10 and several["bits_down"] == 20


def test_a_release_is_published(tables: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hockeystick._runs.kl.ReleaseNoise", lambda: SimulationNoise(7))
    found = [result_of(*tables, *TARGET, "--release", *more) for more in ([], [], ["--model", "dist"])]
    for one in found:
        assert (one["mode"], one["simulated"], one["seed"]) == ("release", False, None) and one["coins"].startswith(
            "0x"
        )
    assert found[0]["coins"] != found[1]["coins"]
    assert run(*tables, *TARGET, "--release").stdout.startswith("released: KL = ")


def test_a_release_is_charged_to_a_ledger(tables: list[str], tmp_path: Path) -> None:
    kinds: tuple[list[str], ...] = (
        [],
        ["--model", "aggregated"],
        ["--model", "dist"],
        WATCH,
        [*WATCH, "--alarms", "1"],
    )
    for number, more in enumerate(kinds):
        budget = RDPFilter.for_target(3.0, 1e-5, adjacency=Adjacency.REPLACE_ONE)
        ledger = DurableLedger.create(tmp_path / f"{number}.db", budget)
        words = [*tables, *TARGET, *more, "--release", "--ledger", str(tmp_path / f"{number}.db")]
        found = run(*words)
        assert found.exit_code == 0, found.stderr
        charges = ledger.charges()
        assert len(charges) == 1 and charges[0].note == "hockeystick kl"
        again = run(*words)
        assert again.exit_code == 2 and "is left" in again.stderr and again.stdout == ""
        assert ledger.charges() == charges
    before = ledger.charges()
    assert_refused(run(*tables, *TARGET, "--ledger", str(tmp_path / "0.db")), "--ledger needs --release")
    DurableLedger.create(tmp_path / "other.db", PureFilter(3.0))
    assert_refused(run(*tables, *TARGET, "--release", "--ledger", str(tmp_path / "other.db")), "replace-one")
    assert ledger.charges() == before


def test_the_seed_of_the_coins_repeats_them(tables: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hockeystick._runs.kl.ReleaseNoise", lambda: SimulationNoise(7))
    first = Randomness.of(None)
    again = np.random.default_rng(int(first.coins_name, 16))
    assert first.coins.random() == again.random()


def test_unknown_symbols_are_refused_or_pooled(tables: list[str], tmp_path: Path) -> None:
    path = tmp_path / "C.csv"
    path.write_text(path.read_text() + "\nuser-1,SECRET,1")
    assert_refused(run(*tables, *TARGET), "record 721", "--other")
    assert "SECRET" not in run(*tables, *TARGET).stderr
    found = result_of(*tables, *TARGET, "--other", "rest", "--other-mass", "0.01")
    assert found["symbols"] == 5 and any("'rest'" in sentence for sentence in found["assumptions"])
    assert result_of(*tables, *TARGET, "--other", "d")["symbols"] == 4


@pytest.mark.statistical
def test_results_for_neighbours_differ_only_in_published_values(tables: list[str], tmp_path: Path) -> None:
    """The result depends on a symbol only through published values, as a comparison of two data sets shows."""
    path = tmp_path / "C.csv"
    everything = path.read_text()
    few = "--samples 3"  # of four symbols
    watched = "--window-column day --threshold 0.1"
    for options in ("", few, "--model aggregated", "--model dist", f"--model dist {few}", "--group 2", watched):
        found = []
        for text in (everything, re.sub(r",[abcd],", ",c,", everything)):
            path.write_text(text)
            found.append(result_of(*tables, *TARGET, *options.split()))
        told = {name for name in found[0] if found[0][name] != found[1][name]}
        noisy = {"noise_deviation"} if "dist" in options else set()
        sampled = {"sampling_deviation"} if few in options else set()
        published = {"windows"} if "window" in options else {"estimate", "published"} | noisy | sampled
        assert told == published
        assert not {"SECRET", "truth", "exact", "value"} & set(found[0])
    path.write_text(everything)


# --- windows ---------------------------------------------------------------------------------------------------------

WATCH = ["--window-column", "day", "--threshold", "0.2"]


def test_a_watch_reports_each_window(tables: list[str]) -> None:
    found = result_of(*tables, *TARGET, *WATCH, "--epsilon", "40")

    watch = DriftMonitor(reference=PI, threshold=0.2, epsilon=40.0, delta=1e-6, windows=3, method="priest")
    randomness = Randomness.of(0)
    session = watch.start(noise=randomness.noise)
    reference = read_reference(tables[1], column="symbol")
    records = read_records(tables[3], reference, column="symbol", client_column="user", window_column="day")
    looks = [session.look(records.counts(i), randomness.coins) for i in range(3)]
    assert [row["estimate"] for row in found["windows"]] == [look.estimate for look in looks]
    assert [row["finding"] for row in found["windows"]] == ["below", "above", "below"]
    assert [row["window"] for row in found["windows"]] == ["1", "2", "3"]
    assert found["epsilon"] == watch.graph().guarantee().epsilon(1e-6).upper
    words = run(*tables, *TARGET, *WATCH).stdout
    for said in ("Drift by window", "upper end", "95 % interval", "KL against the threshold 0.2"):
        assert said in words


@pytest.mark.statistical
def test_a_watch_over_clients_shares_its_budget(tables: list[str]) -> None:
    found = result_of(*tables, *TARGET, *WATCH, "--group", "2")
    assert found["unit"] == "client" and found["group"] == 2 and found["epsilon"] <= 2.0
    alone = result_of(*tables, *TARGET, *WATCH)
    noise = [each["windows"][0]["noise_deviation"] for each in (alone, found)]
    assert noise[1] > 2.5 * noise[0]
    more = result_of(*tables, *TARGET, *WATCH, "--group", "2", "--windows", "30")
    assert more["windows"][0]["noise_deviation"] > noise[1]
    assert_refused(run(*tables, *TARGET, *WATCH, "--windows", "2"), "is less than the 3 windows")


def test_alarms_are_raised_on_drift(tables: list[str]) -> None:
    found = result_of(*tables, *TARGET, *WATCH, "--alarms", "1", "--epsilon", "40", "--samples", "300")
    assert [row["finding"] for row in found["windows"]] == ["below", "above", "not asked"]
    assert "estimate" not in found["windows"][0]
    event = DriftAlarms(reference=PI, threshold=0.2, epsilon=40.0, alarms=1, method="priest").graph().guarantee()
    assert found["epsilon"] == event.epsilon(1e-6).upper
    assert "not queried" in run(*tables, *TARGET, *WATCH, "--alarms", "1", "--epsilon", "40").stdout


@pytest.mark.statistical
def test_a_watch_is_released(tables: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hockeystick._runs.kl.ReleaseNoise", lambda: SimulationNoise(7))
    for more in ([], ["--alarms", "2"], ["--group", "2", "--noise", "gaussian"]):
        found = result_of(*tables, *TARGET, *WATCH, *more, "--release")
        assert found["mode"] == "release" and found["coins"].startswith("0x") and len(found["windows"]) == 3
        assert found["epsilon"] <= 2.0
        assert run(*tables, *TARGET, *WATCH, *more, "--release").stdout.startswith("released: ε ≤ ")


def test_more_windows_than_the_budget_is_for(tables: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is refused before anything is drawn; otherwise two of three charged windows would never be shown."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("it has begun")

    for started in (DriftMonitor, DriftAlarms):
        monkeypatch.setattr(started, "start", never)
    monkeypatch.setattr("hockeystick._files.symbol_tables.Records.capped", never)
    for more in ([], ["--group", "2"], ["--alarms", "1"]):
        assert_refused(
            run(*tables, *TARGET, *WATCH, "--windows", "2", *more), "--windows=2: is less than the 3 windows"
        )
    begun = run(*tables, *TARGET, *WATCH, "--windows", "3")
    assert begun.exit_code != 0 and "it has begun" in begun.output


# --- by histogram ----------------------------------------------------------------------------------------------------

ONE = ["--epsilon", "2"]


def test_a_look_tells_all_divergences(tables: list[str], tmp_path: Path) -> None:
    text = run(*tables, *ONE, "--ordered", "--seed", "3", "--json", str(tmp_path / "out.json"))
    found = json.loads((tmp_path / "out.json").read_text())

    randomness, data = Randomness.of(3), counted(tables)
    histogram = release_histogram(data, epsilon=2.0, noise=randomness.noise)
    look = drift_look(histogram, PI)
    assert found["published"]["noisy_counts"] == histogram.counts.tolist()
    assert [row["divergence"] for row in found["divergences"]] == list(look.divergences)
    assert [row["estimate"] for row in found["divergences"]] == [one.estimate for one in look.divergences.values()]
    assert (found["estimate"], found["learner"], found["parameters"]["method"]) == (
        look["kl"].estimate,
        "kl-histogram",
        "histogram",
    )
    assert 1.9999 < found["epsilon"] <= 2.0
    words = " ".join(text.stdout.split())
    for said in ("simulated: KL = ", "proved interval", "wasserstein", "expected error of KL", "noisy counts"):
        assert said in words


def test_a_look_of_each_model_and_target(tables: list[str]) -> None:
    for options, unit in (
        ("--model aggregated --target law", "record"),
        ("--model dist --survivors 30", "record"),
        ("--group 3", "client"),
    ):
        found = result_of(*tables, *ONE, *options.split())
        assert found["learner"] == "kl-histogram" and found["unit"] == unit
        assert found["low"] <= found["estimate"] <= found["high"] and found["epsilon"] <= 2.0
    plan = result_of(*tables[:2], *ONE, "--plan", "--population", "50", "--records-each", "8")
    assert plan["mode"] == "plan" and "estimate" not in plan and plan["parameters"]["scale"] == pytest.approx(1.0)


def test_the_method_is_chosen_by_public_sizes(tmp_path: Path) -> None:
    """Few records of many symbols: one noisy number has a smaller error."""
    reference, clients = tmp_path / "R.csv", tmp_path / "C.csv"
    reference.write_text("symbol,probability\n" + "".join(f"s{i},{1 / 256}\n" for i in range(256)))
    clients.write_text("client,symbol\n" + "".join(f"c{i},s{i % 256}\n" for i in range(300)))
    found = result_of("--reference", str(reference), "--clients", str(clients), "--epsilon", "1")
    assert (found["learner"], found["parameters"]["method"]) == ("kl-trusted", "priest")
    assert "expected error" in found["parameters"]["chosen"]


def test_windows_by_histograms(tables: list[str]) -> None:
    found = result_of(*tables, *ONE, "--window-column", "day", "--threshold", "0.1")
    assert [row["finding"] for row in found["windows"]] == ["below", "above", "below"]
    assert len(found["windows"][0]["noisy_counts"]) == 4 and found["parameters"]["method"] == "histogram"
    told = result_of(*tables, *ONE, "--window-column", "day", "--threshold", "0.1", "--alarms", "1")
    assert [row["finding"] for row in told["windows"]] == ["below", "above", "not asked"]


def test_alarms_at_a_rate(tables: list[str], tmp_path: Path) -> None:
    watched = [*tables, *ONE, "--window-column", "day", "--false-alarms", "0.1"]
    assert_refused(run(*watched), "more than one record")
    found = result_of(*watched, "--independent")
    assert [row["finding"] for row in found["windows"]] == ["no alarm", "alarm", "alarm"]
    within = result_of(*watched, "--independent", "--threshold", "2")
    assert [row["finding"] for row in within["windows"]] == ["no alarm"] * 3
    assert "Alarm at evidence 10" in run(*watched, "--independent").stdout
    ledger = tmp_path / "ledger.jsonl"
    DurableLedger.create(ledger, PureFilter(3.0, adjacency=Adjacency.REPLACE_ONE))
    assert run(*watched, "--independent", "--release", "--ledger", str(ledger)).exit_code == 0
    assert run(*watched, "--independent", "--release", "--ledger", str(ledger)).exit_code != 0
    plan = [*tables[:2], *ONE, "--plan", "--population", "50", "--records-each", "1", "--windows", "9"]
    assert result_of(*plan, "--run-length", "50")["learner"] == "kl-watch"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--method histogram --samples 3", "--method histogram"),
        ("--method priest --target law", "--target"),
        ("--noise laplace --ordered", "--ordered"),
        ("--false-alarms 0.1", "--false-alarms needs --window-column"),
        ("--window-column day --false-alarms 0.1 --run-length 9", "not both"),
        ("--window-column day --false-alarms 0.1 --alarms 2", "--alarms"),
        ("--window-column day --threshold 0.1 --independent", "--independent"),
        ("--window-column day --threshold 0.1 --target law", "--target"),
        ("--model dist --shares skellam", "--delta above 0"),
    ],
)
def test_bad_options_of_histograms_are_refused(tables: list[str], options: str, said: str) -> None:
    assert_refused(run(*tables, *ONE, *options.split()), said)


# --- plans -----------------------------------------------------------------------------------------------------------

PLAN = ["--plan", "--population", "50", "--records-each", "8"]


@pytest.mark.statistical
def test_plans_read_no_records(tables: list[str]) -> None:
    for model, cls in (("trusted", TrustedKL), ("aggregated", AggregatedKL), ("dist", DistributedKL)):
        found = result_of(*tables[:2], *TARGET, *PLAN, "--model", model)
        assert found["mode"] == "plan" and "estimate" not in found and found["records"] == 400
        average = QueryAverage.drawn(PI, np.full(50, 8), samples=1000, rng=np.random.default_rng(0))
        more: dict[str, Any] = {} if model == "dist" else {"multiplier": 1.0}
        learner = cls.calibrated(average, epsilon=2.0, delta=1e-6, **more)
        assert found["epsilon"] == learner.graph().guarantee().epsilon(1e-6).upper
        assert (found["bits_down"], found["bits_up"], found["answers"]) == bits(learner)
    assert "certified: ε ≤ " in run(*tables[:2], *TARGET, *PLAN).stdout


def test_a_plan_of_a_watch(tables: list[str]) -> None:
    found = result_of(*tables[:2], *TARGET, *PLAN, "--windows", "7", "--threshold", "0.1")
    assert found["learner"] == "kl-monitor" and found["records"] == 7 * 400 and found["parameters"]["windows"] == 7
    told = result_of(*tables[:2], *TARGET, *PLAN, "--windows", "7", "--threshold", "0.1", "--alarms", "2")
    assert told["learner"] == "kl-alarms" and told["parameters"]["alarms"] == 2 and "windows" not in told
    capped = result_of(*tables[:2], *TARGET, *PLAN, "--group", "3")
    assert capped["records"] == 150


def test_a_large_delta_is_warned_of(tables: list[str]) -> None:
    assert "above 1/720" in run(*tables, "--epsilon", "1", "--delta", "0.05").stderr
    assert "above 1/" not in run(*tables, "--epsilon", "1", "--delta", "1e-6").stderr


# --- lines that stand for many records -------------------------------------------------------------------------------


@pytest.fixture
def counts(tables: list[str], tmp_path: Path) -> list[str]:
    """The same records as in ``tables``, some of them on one line, and an unused column."""
    lines = Path(tables[3]).read_text().splitlines()[1:]
    many = {line: lines.count(line) for line in dict.fromkeys(lines)}
    path = tmp_path / "N.csv"
    path.write_text("user,symbol,day,count,note\n" + "".join(f"{line},{n},x\n" for line, n in many.items()))
    return [*tables[:3], str(path), *tables[4:]]


@pytest.mark.statistical
def test_a_line_may_stand_for_many_records(tables: list[str], counts: list[str]) -> None:
    """Every result is the same as if each record had its own line."""
    for more in ([], WATCH, [*WATCH, "--alarms", "1"]):
        one, many = (result_of(*each, *TARGET, *more) for each in (tables, counts))
        assert one.pop("data") != many.pop("data")
        assert one == many
    capped = result_of(*counts, *TARGET, *WATCH, "--group", "2")
    assert capped["records"] == 2 * 3 * CLIENTS  # records are counted, and not lines


def test_a_column_of_counts_decides_the_divergence(tmp_path: Path) -> None:
    """KL((1/2, 1/2) || (199/200, 1/200)) = 1.96; line by line the data are the reference."""
    reference, clients = tmp_path / "R.csv", tmp_path / "C.csv"
    reference.write_text("symbol,probability\nA,0.5\nB,0.5\n")
    clients.write_text("client,symbol,count\n" + "".join(f"{i},A,199\n{i},B,1\n" for i in range(40)))
    found = result_of("--reference", str(reference), "--clients", str(clients), *TARGET, "--model", "dist")

    assert found["records"] == 40 * 200
    assert found["estimate"] == pytest.approx(-0.5 * math.log(4 * 0.995 * 0.005), abs=0.5)


def test_columns_that_are_not_read_are_named(tables: list[str], counts: list[str]) -> None:
    unread = run(*counts, *TARGET, *WATCH).stderr
    assert "warning: --clients has columns that are not read: 'note'\n" in unread
    assert "--reference has" not in unread
    assert "are not read: 'day'\n" in run(*tables, *TARGET).stderr
    other = Path(tables[1])
    other.write_text(other.read_text().replace("symbol,probability", "symbol,weight"))
    assert "--reference has columns that are not read: 'weight'" in run(*tables, *TARGET).stderr


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--release --seed 1", "--release can't be combined with --seed"),
        ("--model dist --noise laplace", "--noise"),
        ("--shares polya", "--shares needs --model dist"),
        ("--survivors 3", "--survivors"),
        ("--model dist --survivors 41", "survivors"),
        ("--model dist --delta 0", "--delta"),
        ("--noise gaussian --delta 0", "--delta"),
        ("--model aggregated --group 2", "--group"),
        ("--model aggregated --multiplier 0", "--model trusted"),
        ("--logarithm harmonic --pseudo-count 1", "--pseudo-count"),
        ("--other-mass 0.1", "--other"),
        ("--other rest", "--other-mass"),
        ("--threshold 1", "--window-column"),
        ("--alarms 1", "--window-column"),
        ("--window-column day", "--threshold"),
        ("--window-column day --threshold 1 --model dist", "--model trusted"),
        ("--window-column day --threshold 1 --cohort 3", "--cohort"),
        ("--window-column day --threshold 1 --multiplier 1", "--samples"),
        ("--window-column day --threshold 1 --alarms 1 --noise laplace", "--noise"),
        ("--window-column day --threshold 1 --logarithm harmonic", "Smoothed"),
        ("--population 3", "--plan"),
        ("--cohort 41", "population of 40"),
        ("--cohort 5 --cohort-mode disjoint", "disjoint"),
        ("--column nothing", "no column 'nothing'"),
        ("--client-column symbol", "different columns"),
        ("--epsilon nan", "--epsilon"),
        ("--delta 1", "--delta"),
        ("--json /nowhere/x.json", "--json"),
    ],
)
def test_bad_options_are_refused(tables: list[str], options: str, said: str) -> None:
    assert_refused(run(*tables, *TARGET, *options.split()), said)


def test_bad_plans_are_refused(tables: list[str]) -> None:
    assert_refused(run(*tables, *TARGET, *PLAN), "--clients")
    assert_refused(run(*tables[:2], *TARGET, "--plan"), "--population, --records-each")
    assert_refused(run(*tables[:2], *TARGET), "--clients or --plan")
    assert_refused(run(*tables[:2], *TARGET, *PLAN, "--release"), "--release")


def test_the_harmonic_logarithm_is_an_option(tables: list[str]) -> None:
    found = result_of(*tables, *TARGET, "--logarithm", "harmonic", "--samples", "3")
    assert found["parameters"]["logarithm"] == "harmonic" and found["sampling_deviation"] is None
    assert Harmonic().assumption is None
