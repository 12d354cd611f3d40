"""Tests of surveys: estimates in three models of trust, what servers and clients refuse, and what a forger can do."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from hockeystick.accounting import Adjacency, DurableLedger, InvalidArgumentError, PureFilter
from hockeystick.learners.analytics import (
    CategoryQuestion,
    ItemQuestion,
    MeanQuestion,
    QuantileQuestion,
    RefusedAnswerError,
    Survey,
    SurveyClient,
    SurveyResult,
    SurveyRound,
    SurveyServer,
    answer_round,
    client_key,
    conduct_survey,
)
from hockeystick.learners.analytics.estimates import noise_bound
from hockeystick.mechanisms import ClientsInProcess, PolyaShares, SimulationNoise, SubsetSelection

COLOURS = CategoryQuestion(["red", "blue", "green"])
WORDS = ItemQuestion("abcdefgh", length=4, stride=2, share=0.1)
QUIET = 25.0  # an ε at which a report is hardly ever a lie


def survey(question: Any, **given: Any) -> Survey:
    return Survey(**{"question": question, "epsilon": QUIET, "clients": 60, "run": b"8 bytes."} | given)


def in_process(asked: Survey, values: Sequence[Any], **given: Any) -> SurveyResult:
    values = [values[i] for i in np.random.default_rng(5).permutation(len(values))]  # numbers don't tell values
    clients = [SurveyClient(i, value, most_epsilon=asked.epsilon, source=i) for i, value in enumerate(values)]
    noise = SimulationNoise(7) if asked.model == "trusted" else None
    return conduct_survey(asked, ClientsInProcess(clients, **given), simulated=True, noise=noise)


def shares(found: SurveyResult) -> dict[str, float]:
    return {name: share for name, share, _, _ in found.rows}


# --- estimates -------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("model", ["local", "trusted", "aggregated"])
def test_every_question_is_answered_in_every_model(model: Any) -> None:
    """At a large ε the noise is below a thousandth, so that the answers are those without noise."""
    groups = {"groups": 3} if model == "aggregated" else {}
    colours = ["red"] * 36 + ["blue"] * 18 + ["pink"] * 6
    found = in_process(survey(COLOURS, model=model, **groups), colours)
    assert shares(found) == pytest.approx({"red": 0.6, "blue": 0.3, "green": 0.0, "(other)": 0.1}, abs=1e-3)
    assert found.answered == 60 and not found.refused and found.simulated

    numbers = [float(i % 10) for i in range(60)]
    mean = in_process(survey(MeanQuestion(0.0, 10.0), model=model, **groups), numbers)
    assert mean.rows[0][2] <= 4.5 <= mean.rows[0][3]
    assert mean.rows[0][1] == pytest.approx(
        4.5, abs=2.6 if model == "local" else 0.2
    )  # 5 deviations of 60 coins, or of the noise

    halves = in_process(
        survey(QuantileQuestion(0, 4, cells=4, levels=(0.5,)), model=model, **groups), [0.5, 2.5, 3.5] * 20
    )
    name, middle, low, high = halves.rows[0]
    assert name == "0.5" and low <= 2.5 <= high and low <= middle <= high
    assert (low, high) == (2.0, 3.0) or model == "local"

    words = (["abc", "abca", "zzz", "toolong"] + ["abc", "hg"] * 3) * 6
    items: Any = in_process(survey(evolve(WORDS, share=0.2), model=model, **groups), words)
    if model == "local":  # 30 clients a round: every share is within ½
        assert set(shares(items)) <= {"abc", "hg"} and items.detectable > 0.2
    else:
        assert shares(items) == pytest.approx({"abc": 0.4, "hg": 0.3}, abs=1e-3) and items.complete
        assert 0.2 <= items.detectable < 0.21


@pytest.mark.statistical
def test_local_words_are_found_in_rounds_of_different_clients() -> None:
    words = np.random.default_rng(1).permutation(["abcd", "hg", "abcd", "x"] * 1000).tolist()
    asked: Any = survey(evolve(WORDS, share=0.2), epsilon=6.0, clients=4000).first()
    rounds = []
    while isinstance(asked, SurveyRound):
        server = SurveyServer(asked, simulated=True)
        noise = SimulationNoise(asked.number)
        texts = [answer_round(asked, i, words[i], most_epsilon=6.0, noise=noise) for i in asked.asked]
        assert server.receive_all(texts) == len(texts)
        rounds.append(set(asked.asked))
        following = server.close()
        asked = SurveyRound.from_json(following.to_json()) if isinstance(following, SurveyRound) else following
    assert not rounds[0] & rounds[1] and len(rounds[0] | rounds[1]) == 4000
    assert set(shares(asked)) == {"abcd", "hg"} and asked.detectable < 0.24
    for name, share, low, high in asked.rows:
        assert low <= {"abcd": 0.5, "hg": 0.25}[name] <= high and low < share < high


@pytest.mark.statistical
def test_intervals_cover_and_are_not_idle() -> None:
    """500 surveys of 400 answers at a stated 0.8 of all: fewer than 365 have probability 1e-6 at a coverage of 0.8."""
    asked, hits, widths = survey(COLOURS, epsilon=1.0, clients=400, confidence=0.8), 0, []
    truth = {"red": 0.5, "blue": 0.3, "green": 0.2, "(other)": 0.0}
    codes = np.repeat([0, 1, 2], [200, 120, 80])
    oracle = asked.oracle(4)
    from hockeystick.learners.analytics.estimates import of_reports

    for reports in oracle.simulate(codes, np.random.default_rng(3), runs=500):
        found = of_reports(asked.first(), oracle, np.bincount(reports, minlength=4), 400)
        low, high = found.low, found.high
        hits += all(a <= truth[name] <= b for name, a, b in zip(COLOURS.names, low, high, strict=True))
        widths.append(np.abs(found.shares - list(truth.values())).max() / found.bound)
    assert hits >= 365
    assert np.quantile(widths, 0.8) > 0.5  # half of the bound would fail too often


@pytest.mark.parametrize("shape", [1.0, 1.5, 4.0])
def test_the_bound_of_noise_is_above_its_exact_quantile(shape: float) -> None:
    """The law of a sum of shares by convolution; the bound is exact for one discrete Laplace variable."""
    law = PolyaShares(3.0, survivors=int(2 * shape), whole=2)
    values, masses = law.law() if shape != 1.0 else PolyaShares(3.0, survivors=2).law()
    for failure in (0.3, 0.05, 1e-4):
        bound = noise_bound(3.0, shape, 5, failure)
        beyond = float(masses[np.abs(values) > bound].sum()) * 5
        assert beyond <= failure * (1 + 1e-9)
        if shape == 1.0:
            assert float(masses[np.abs(values) > bound - 1].sum()) * 5 > failure


# --- costs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", [COLOURS, MeanQuestion(0, 1), QuantileQuestion(0, 1, cells=8), WORDS])
@pytest.mark.parametrize("model", ["local", "trusted", "aggregated"])
def test_the_graph_costs_what_is_stated(question: Any, model: Any) -> None:
    plan = survey(question, model=model, epsilon=0.7)
    stated = plan.graph().guarantee().epsilon(0.0).upper
    assert 0.7 * (1 - 1e-9) <= stated <= 0.7 and plan.event().pure_epsilon() <= 0.7
    assert plan.adjacency is (Adjacency.LOCAL if model == "local" else Adjacency.REPLACE_ONE)


def test_shares_are_calibrated_for_the_clients_that_certainly_stay_and_do_not_collude() -> None:
    plan = survey(COLOURS, model="aggregated", epsilon=1.0, groups=2, colluders=5)
    assert plan.sum_plan(0, 4).threshold == 21 and plan.shares(0).whole == plan.shares(0).survivors == 16
    assert (plan.shares(0).rise, plan.shares(0).fall, plan.shares(0).scale) == (1, 1, 2.0)
    mean = survey(MeanQuestion(0, 1), model="aggregated", epsilon=1.0)
    assert (mean.shares(0).rise, mean.shares(0).fall, mean.shares(0).scale) == (1000, 0, 1000.0)
    words = survey(WORDS, model="aggregated", epsilon=1.0)
    assert words.looks == 2 and words.shares(0).scale == pytest.approx(4.0)
    with pytest.raises(InvalidArgumentError, match="colluders"):
        survey(COLOURS, model="aggregated", colluders=45)


def test_a_ledger_is_charged_before_noise_and_its_refusal_releases_nothing(tmp_path: Any) -> None:
    ledger = DurableLedger.create(tmp_path / "L.db", PureFilter(1.5, adjacency=Adjacency.LOCAL))
    asked = survey(COLOURS, epsilon=1.0).first()
    answer_round(asked, 3, "red", most_epsilon=1.0, ledger=ledger)
    with pytest.raises(Exception, match="is left"):
        answer_round(asked, 3, "red", most_epsilon=1.0, ledger=ledger)
    with pytest.raises(InvalidArgumentError, match="clients'"):
        SurveyServer(asked).close(ledger=ledger)
    central = DurableLedger.create(tmp_path / "C.db", PureFilter(0.5, adjacency=Adjacency.REPLACE_ONE))
    for model in ("trusted", "aggregated"):
        with pytest.raises(Exception, match="is left"):
            plan = survey(COLOURS, epsilon=1.0, model=model)
            conduct_survey(
                plan,
                ClientsInProcess([SurveyClient(i, "red", most_epsilon=1, source=i) for i in range(60)]),
                simulated=True,
                ledger=central,
            )


# --- messages --------------------------------------------------------------------------------------------------------


def messages(asked: SurveyRound, count: int = 60) -> list[bytes]:
    return [answer_round(asked, i, "red", most_epsilon=QUIET, noise=SimulationNoise(i)) for i in range(count)]


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("model", ["local", "trusted"])
def test_only_the_first_proper_message_of_a_client_counts(model: Any, block: bool) -> None:
    """Each refusal has its reason, and the totals are those of the proper messages alone."""
    asked = survey(COLOURS, model=model).first()
    good = messages(asked)
    other_round = messages(evolve(asked, survey=evolve(asked.survey, run=b"another.")))
    stranger = good[5][:14] + (60).to_bytes(4, "little") + good[5][18:]
    out_of_range = good[7][:18] + b"\xff" * len(good[7][18:])
    bad = [good[0], other_round[1], stranger, out_of_range, good[2] + b"x", b"junk"]
    server, clean = SurveyServer(asked, simulated=True), SurveyServer(asked, simulated=True)
    if block:
        assert server.receive_all([*good[:5], *bad, *good[5:]]) == 60
    else:
        for text in good:
            server.receive(text)
        for text in bad:
            with pytest.raises(RefusedAnswerError):
                server.receive(text)
        with pytest.raises(RefusedAnswerError, match="not asked"):
            server.receive(good[3], sender=4)
        server.refused["the client is not asked"] -= 1
    assert clean.receive_all(b"".join(good)) == 60
    expected = {
        "another survey or round": 1,
        "the client is not asked": 1,
        "out of range": 1,
        "malformed": 2,
        "the client has answered": 1,
    }
    if not block:  # it has answered before
        expected |= {"out of range": 0, "the client has answered": 2}
    assert {reason: count for reason, count in expected.items() if count} == {
        r: c for r, c in server.refused.items() if c
    }
    found, again = (one.close(noise=SimulationNoise(1) if model == "trusted" else None) for one in (server, clean))
    assert isinstance(found, SurveyResult) and isinstance(again, SurveyResult) and found.rows == again.rows
    assert server.receive_all(good) == 0 and server.refused["late"] == 60
    with pytest.raises(RefusedAnswerError, match="late"):
        server.receive(good[0])


def test_a_forged_message_moves_a_share_by_no_more_than_stated() -> None:
    """Every possible payload of a small survey, beside 20 honest ones, against another one."""
    asked = survey(CategoryQuestion(["a", "b", "c", "d"]), epsilon=0.5, clients=21).first()
    oracle = asked.survey.oracle(5)
    assert isinstance(oracle, SubsetSelection) and oracle.size == 2
    good = messages(asked, 20)
    found = []
    for payload in range(256):
        server = SurveyServer(asked, simulated=True)
        server.receive_all(good)
        forged = good[0][:14] + (20).to_bytes(4, "little") + bytes([payload])
        try:
            server.receive(forged)
        except RefusedAnswerError:
            continue
        result: Any = server.close()
        found.append(list(shares(result).values()))
    assert len(found) == math.comb(5, 2)
    spread = np.ptp(np.array(found), axis=0).max()
    assert 0.0 < spread <= result.influence * (1 + 1e-12)


def test_signed_messages_of_others_are_refused() -> None:
    asked = survey(COLOURS, authenticated=True).first()
    secret = b"a secret of the server"
    key = client_key(secret, asked.survey, 3)
    text = answer_round(asked, 3, "red", most_epsilon=QUIET, key=key, noise=SimulationNoise(1))
    forged = text[:14] + (4).to_bytes(4, "little") + text[18:]
    for block in (False, True):
        server = SurveyServer(asked, secret=secret)
        if block:
            assert server.receive_all(forged + text) == 1
        else:
            with pytest.raises(RefusedAnswerError, match="not signed"):
                server.receive(forged)
            assert server.receive(text) == 3
        assert server.refused == {"not signed by the client": 1}
    for wrong in ({}, {"key": None}):
        with pytest.raises(InvalidArgumentError, match="key"):
            answer_round(asked, 3, "red", most_epsilon=QUIET, **wrong)
    with pytest.raises(InvalidArgumentError, match="secret"):
        SurveyServer(asked)
    with pytest.raises(InvalidArgumentError, match="16 bytes"):
        client_key(b"short", asked.survey, 3)


def test_a_client_answers_its_own_round_at_no_more_than_its_limit() -> None:
    asked = survey(WORDS, epsilon=2.0).first()
    for number, limit in ((1, 2.0), (0, 1.9), (60, 2.0)):  # the next round's client, a dear survey, a stranger
        with pytest.raises(InvalidArgumentError):
            answer_round(asked, number, "abc", most_epsilon=limit)
    with pytest.raises(InvalidArgumentError, match="SurveyClient"):
        answer_round(survey(COLOURS, model="aggregated").first(), 0, "red", most_epsilon=QUIET)


def test_a_client_over_a_network_answers_one_survey_once() -> None:
    from hockeystick.learners.analytics.conducting import opening

    client = SurveyClient(0, "abc", most_epsilon=QUIET, source=1)
    first = survey(WORDS).first()
    state, text = client.answer(client.start(), opening(first))
    assert len(text) > 18
    for again in (opening(first), opening(survey(WORDS, run=b"another.").first()), bytes(4), b""):
        with pytest.raises((RefusedAnswerError, InvalidArgumentError)):
            client.answer(state, again)
    with pytest.raises(RefusedAnswerError, match="next"):
        client.answer(client.start(), bytes(4))
    summed = SurveyClient(0, "abc", most_epsilon=QUIET, source=1)
    plan = survey(WORDS, model="aggregated")
    from hockeystick.mechanisms.distributed.pairwise.sum_server import serve

    letter = next(serve(plan.sum_plan(0, plan.first().cells)))[0]
    state, _ = summed.answer(summed.start(), opening(plan.first(), letter))
    with pytest.raises(RefusedAnswerError, match="answered"):
        summed.answer(state, opening(plan.first(), letter))


# --- sums over groups ------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_dropouts_and_a_spoilt_group_are_left_out() -> None:
    """A group with a client that sends a million is left out; one that loses too many clients has no sum."""
    plan = survey(COLOURS, model="aggregated", groups=3, clients=18)

    class Forger(SurveyClient):
        def _summing(self, asked: Any, noise: Any) -> Any:
            honest = super()._summing(asked, noise)
            return evolve(honest, numbers=lambda: np.array([50, -50, 0, 1]))

    clients = [SurveyClient(i, "red", most_epsilon=QUIET, source=i) for i in range(18)]
    clients[4] = Forger(4, "red", most_epsilon=QUIET, source=4)
    gone = {2, 5, 8}  # of group 2, after they have sent their keys
    late = {9}  # of group 0
    found = conduct_survey(
        plan,
        ClientsInProcess(clients, silent=lambda i, step: (i in gone and step == 2) or (i in late and step == 2)),
        simulated=True,
    )
    assert found.answered == 5 and shares(found)["red"] == pytest.approx(1.0, abs=1e-3)
    assert found.refused["a group's sum is spoilt"] == 6 and found.refused["a group is too small"] == 1
    assert 1.0 <= found.influence < 1.5  # one group is left


# --- questions and files ---------------------------------------------------------------------------------------------


def test_values_that_a_question_does_not_know_are_counted_and_never_refused() -> None:
    assert [COLOURS.code(value) for value in ("red", "pink", 3, None, ["red"])] == [0, 3, 3, 3, 3]
    quarters = QuantileQuestion(0, 4, cells=4)
    assert [quarters.code(v) for v in (-1, 0, 0.5, 1, 1.01, 4, 9, math.inf, math.nan, "x", None)] == [
        0,
        0,
        0,
        0,
        1,
        3,
        3,
        3,
        0,
        0,
        0,
    ]
    mean = MeanQuestion(0, 4)
    assert [mean.share(v) for v in (-1, 1, 9, -math.inf, "x", 10**400)] == [0.0, 0.25, 1.0, 0.0, 0.5, 1.0]
    assert WORDS.digits("ab") == (1, 2, 0, 0) and WORDS.digits("") is None
    assert WORDS.digits("abcde") is None and WORDS.digits("xy") is None and WORDS.digits(7) is None


def test_cells_and_prefixes_of_words_fit_each_other() -> None:
    """Every word's cell has the prefix of the word; cells of no word have none."""
    prefixes: tuple[Any, ...] = ((),)
    for known in (2, 4):
        cells = {}
        for word in ("a", "ab", "abc", "abch", "hg", "h"):
            digits: Any = WORDS.digits(word)
            cells[word] = WORDS.code(digits, prefixes)
            assert WORDS.extended(cells[word], prefixes) == digits[:known]
        ones = [p for i in range(WORDS.cells(prefixes)) if (p := WORDS.extended(i, prefixes)) is not None]
        assert len(set(ones)) == len(ones)
        assert WORDS.code(None, prefixes) == WORDS.cells(prefixes) - 1
        prefixes = tuple(dict.fromkeys((WORDS.digits(w) or ())[:2] for w in cells))
    assert WORDS.word((1, 2, 0, 0)) == "ab" and WORDS.extended(WORDS.cells(prefixes) - 1, prefixes) is None


@pytest.mark.parametrize("question", [COLOURS, MeanQuestion(-1, 1), QuantileQuestion(0, 1, levels=(0.1,)), WORDS])
def test_a_round_is_read_as_it_was_written_and_nothing_else_is(question: Any) -> None:
    asked = survey(question).first()
    text = asked.to_json()
    assert SurveyRound.from_json(text) == asked == SurveyRound.from_json(text.encode())
    given = json.loads(text)
    changes: tuple[dict[str, Any], ...] = (
        {"format": "other"},
        {"kind": "none"},
        {"epsilon": -1},
        {"more": 1},
        {"question": {}},
        {"prefixes": [[1], [2]]},
        {"number": 99},
        {"run": "zz"},
        {"prefixes": [[[]]]},
        {"clients": "3"},
    )
    for change in changes:
        with pytest.raises(InvalidArgumentError):
            SurveyRound.from_json(json.dumps(given | change))
    for junk in ("", "[]", "3", b"\xff", "{" * 10**5):
        with pytest.raises(InvalidArgumentError):
            SurveyRound.from_json(junk)


@pytest.mark.parametrize(
    "bad",
    [
        {"question": "red"},
        {"epsilon": 0.0},
        {"clients": 0},
        {"model": "none"},
        {"groups": 2},
        {"model": "aggregated", "groups": 40},
        {"model": "aggregated", "authenticated": True},
        {"run": b"short"},
        {"confidence": 1.0},
    ],
)
def test_bad_plans_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        survey(**{"question": COLOURS} | bad)
