"""Tests of last iterates in graphs: what their views pay and assume, and what takes the discount away."""

import pytest

from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    Contraction,
    Gaussian,
    GraphError,
    Guarantee,
    InvalidArgumentError,
    Laplace,
    PoissonSampled,
    Reach,
    UnsupportedEventError,
    compose,
    last_iterate,
)
from hockeystick.accounting.graph.parts.nodes import Post

STEP = Contraction.of_gradient_descent(0.1, regulariser=0.5, smoothness=4.0, largest_batch=50, normaliser=50)


STEPS = Gaussian(10.0)


def training(event=STEPS, count=160, **options):
    graph = AccountantGraph().source("people").release("steps", event, reads=["people"], count=count)
    return graph.last_iterate("model", of="steps", contraction=STEP, **options)


def event_of(graph, view):
    (move,) = graph.guarantee(view=view).moves
    return move.event()


@pytest.mark.parametrize("event", [Gaussian(10.0), PoissonSampled(0.1, Gaussian(2.0))])
def test_a_view_of_the_last_iterate_pays_for_it_and_everybody_else_for_all(event):
    graph = training(event, 60).view("last", sees=["model"]).view("all", sees=["steps", "model"])
    assert event_of(graph, "last") == last_iterate(event, 60, contraction=STEP)
    assert event_of(graph, "all") == event_of(graph, None) == compose((event, 60))


def test_a_count_is_of_accesses_so_batches_that_take_turns_have_more_steps():
    graph = training(count=20, batches=5, unread=2, diameter=3.0).view("last", sees=["model"])
    expected = last_iterate(Gaussian(10.0), 100, contraction=STEP, batches=5, unread=2, diameter=3.0)
    assert event_of(graph, "last") == expected


def test_the_guarantee_carries_the_assumptions_in_words_and_in_json():
    graph = training(count=20, batches=5, unread=2, diameter=3.0).view("last", sees=["model"])
    guarantee = graph.guarantee(view="last")
    text = " ".join(guarantee.assumptions)
    told = "only the last one is seen", "no momentum", "convex and 4-smooth", "no batch has more than 50 records"
    for words in (*told, "depends on that record alone", "at least 2 steps", "projected", "outside the clipping"):
        assert words in text
    assert "of the iterates of steps it sees the last one alone" in guarantee.threat_model
    assert Guarantee.from_json(guarantee.to_json()) == guarantee
    assert AccountantGraph.from_json(graph.to_json()) == graph
    assert graph.guarantee().assumptions == ()


def test_a_checkpoint_starts_again_and_both_parts_are_charged():
    graph = AccountantGraph().source("people").release("early", Gaussian(9.0), reads=["people"], count=30)
    graph = graph.last_iterate("checkpoint", of="early", contraction=STEP)
    graph = graph.release("late", Gaussian(9.0), reads=["people", "checkpoint"], count=50)
    graph = graph.last_iterate("model", of="late", contraction=STEP)
    parts = [last_iterate(Gaussian(9.0), n, contraction=STEP) for n in (30, 50)]
    assert event_of(graph.view("both", sees=["checkpoint", "model"]), "both") == compose(*parts)
    assert event_of(graph.view("end", sees=["model"]), "end") == compose(*parts)
    assert event_of(graph.view("checkpoint", sees=["checkpoint"]), "checkpoint") == parts[0]


def test_what_reads_a_published_last_iterate_is_composed():
    graph = training().release("score", Laplace(5.0), reads=["people", "model"]).view("v", sees=["model", "score"])
    assert event_of(graph, "v") == compose(last_iterate(Gaussian(10.0), 160, contraction=STEP), Laplace(5.0))


@pytest.mark.parametrize("kind", ["average", "validation", "transform"])
def test_what_reads_hidden_iterates_is_refused_beside_the_last_one(kind):
    graph = training()
    if kind == "average":
        graph = graph.post("other", reads=["steps"])
    elif kind == "validation":
        graph = graph.release("other", Laplace(5.0), reads=["people", "steps"])
    else:
        graph = graph.transform("t", reads=["people", "steps"], stability={("records", "l1"): 1.0})
        graph = graph.release("other", Laplace(5.0), reads=["t"])
    with pytest.raises(GraphError, match="computed from its iterates"):
        graph.view("v", sees=["model", "other"]).guarantee(view="v")
    full = compose((Gaussian(10.0), 160), *([] if kind == "average" else [Laplace(5.0)]))
    assert event_of(graph.view("w", sees=["steps", "model", "other"]), "w") == full


def test_a_second_last_iterate_of_the_same_steps_is_refused():
    graph = training().last_iterate("again", of="steps", contraction=STEP).view("v", sees=["model", "again"])
    with pytest.raises(GraphError, match="again"):
        graph.guarantee(view="v")


def test_two_steps_between_blocks_and_groups_keep_their_rules():
    graph = training().view("last", sees=["model"])
    (single,), (double,) = (graph.guarantee(view="last", group=k).moves for k in (1, 2))
    assert double.event() == single.event().at(2)
    replaced = graph.guarantee(view="last", under=Adjacency.REPLACE_ONE)
    assert replaced.moves[0].event() == single.event().at(2)
    sampled = AccountantGraph().source("people")
    sampled = sampled.release("steps", PoissonSampled(0.1, Gaussian(2.0)), reads=["people"], count=60)
    half = Contraction.proved(0.5)
    sampled = sampled.last_iterate("model", of="steps", contraction=half).view("last", sees=["model"])
    for refused in ({"group": 2}, {"under": Adjacency.REPLACE_ONE}):
        with pytest.raises(UnsupportedEventError):
            sampled.guarantee(view="last", **refused)


def test_a_view_with_less_noise_pays_for_that_noise():
    graph = training().view("colluders", sees=["model"], events={"steps": Gaussian(5.0)})
    assert event_of(graph, "colluders") == last_iterate(Gaussian(5.0), 160, contraction=STEP)


def test_only_noisy_iterations_have_last_iterates():
    graph = AccountantGraph().source("people", size=3).release("l", Laplace(1.0), reads=["people"], count=9)
    graph = graph.release("blocks", Gaussian(1.0), reads=["people"], reach=Reach(0, 0))
    for name, error in (("l", UnsupportedEventError), ("people", GraphError), ("blocks", GraphError)):
        with pytest.raises(error):
            graph.last_iterate("model", of=name, contraction=STEP)
    with pytest.raises(InvalidArgumentError, match="Contraction"):
        AccountantGraph().source("s").release("steps", Gaussian(1.0), reads=["s"]).last_iterate(
            "model",
            of="steps",
            contraction=0.9,  # type: ignore[arg-type]
        )
    with pytest.raises(InvalidArgumentError):
        training(diameter=-1.0)


def test_files_with_other_terms_are_refused():
    text = training(diameter=2.5).to_json()
    (node,) = AccountantGraph.from_json(text)._of(Post)
    assert node.hidden is not None and node.hidden.diameter == 2.5
    for old, new in (('"diameter": 2.5', '"diameter": -1'), ('"batches": 1', '"batches": 0'),
                     ('"unread": 0', '"unread": 0, "extra": 1'), ('"factor": ', '"factor": -')):  # fmt: skip
        assert old in text
        with pytest.raises((GraphError, InvalidArgumentError)):
            AccountantGraph.from_json(text.replace(old, new))
