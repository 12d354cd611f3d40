"""``hockeystick calibrate``: the noise, number of uses or sampling probability that just meets a privacy target."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.commands.dp_sgd import WithTraining, calibrate_training, refuse_late_word
from hockeystick._cli.frame.certificate_files import certificate_options, planned, write_certificate
from hockeystick._cli.frame.destinations import deliver, output_file, result_files, write
from hockeystick._cli.frame.ending import working
from hockeystick._cli.frame.option_types import Count, FileName, Real, read_text, together
from hockeystick._cli.frame.plot_files import calibration_picture, plot_file, plot_option
from hockeystick._cli.frame.shared_options import POSITIVE, SHARE, Given, need, option, output_options, picked, refuse
from hockeystick._cli.frame.streams import warn

if TYPE_CHECKING:
    from hockeystick._runs.calibration import Question, Template
    from hockeystick.accounting import AccountantGraph, Calibrated

_RELATIONS = ("add-or-remove-one", "replace-one", "replace-with-null")
_target = together(
    option("--epsilon E", POSITIVE, "Target: (E, D)-differential privacy."),
    option("--delta D", Real(0.0, 1.0, high_open=True), "The δ of the target. Default: 0."),
    option("--advantage A", SHARE, "Other target: every membership attack has an advantage of at most A."),
    option(
        "--tpr T", SHARE, "Other target: every membership attack has a true positive rate of at most T at the --fpr."
    ),
    option("--fpr F", SHARE, "With --tpr: the attack's false positive rate."),
)
_mechanism = together(
    option("--find", click.Choice(("noise", "count", "sampling")), "The number to calibrate.", default="noise"),
    option("--noise S", POSITIVE, "Standard deviation, or Laplace scale, or Skellam variance."),
    option("--count N", Count(1), "Number of uses of the mechanism. Default: 1."),
    option(
        "--sensitivity S",
        POSITIVE,
        "The sensitivity of the value under --adjacency. Default: 1, unless --clip is given.",
    ),
    option(
        "--clip C",
        POSITIVE,
        "Instead of --sensitivity: the value is a sum to which each record adds at most C. The sensitivity is "
        "then C; under replace-one it is 2·C.",
    ),
    option("--sampling Q", SHARE, "Each use reads a Poisson sample: each record with probability Q."),
    option(
        "--batch B",
        Count(1),
        "Each use reads a random sample of B of the --population's records (replace-one only). Needs --clip or "
        "--sensitivity.",
    ),
    option("--population M", Count(1), "With --batch: the number of records."),
    option(
        "--adjacency",
        click.Choice(_RELATIONS),
        "The neighbouring relation. Default: add-or-remove-one, or replace-one with --batch.",
    ),
)


@click.command("calibrate", cls=WithTraining)
@click.argument("what", metavar="MECHANISM|GRAPH.json", type=FileName())
@_target
@_mechanism
@option("--graph FILE", FileName("output"), "Write the calibrated graph.", dest="graph_file")
@plot_option
@certificate_options()
@output_options()
def calibrate_command(**given: Any) -> int:
    """Find the least noise (or the most uses) that meets a privacy target.

    MECHANISM is gaussian, laplace, discrete-gaussian, discrete-laplace or skellam. Its sensitivity and clip are L2
    norms, or L1 norms for the two Laplace mechanisms. The tightest sound accountant certifies the result at exactly
    this value; the report also shows an adjacent value that fails. Its first line states the neighbouring relation, the
    sensitivity and the sampling.

    For the training of a model by DP-SGD, "hockeystick calibrate dp-sgd --help" takes records, batch and epochs.

    GRAPH.json is a graph from AccountantGraph.to_json() with "?" in place of the number to calibrate ('-': the standard
    input). "?" may stand in several places, which all get the same value.

    \b
    Examples:
      hockeystick calibrate gaussian --epsilon 1 --delta 1e-6
      hockeystick calibrate gaussian --epsilon 1 --delta 1e-6 --count 1000 --sampling 0.01 --clip 0.5
      hockeystick calibrate gaussian --epsilon 3 --delta 1e-5 --count 50 --batch 256 --population 60000 --clip 1
      hockeystick calibrate laplace --epsilon 1 --sensitivity 2 --json -
      hockeystick calibrate gaussian --find count --noise 20 --epsilon 1 --delta 1e-6
      hockeystick calibrate gaussian --tpr 0.05 --fpr 0.01 --delta 1e-6
      hockeystick calibrate graph.json --epsilon 1 --delta 1e-6 --graph found.json
      hockeystick calibrate gaussian --epsilon 1 --delta 1e-6 --plot noise.svg

    With --advantage or --tpr the guarantee is shown at --delta, which is then 1e-6 by default.

    Exit status: 0, or 2 if no value meets the target.
    """
    refuse_late_word(given["what"])
    graph_path = _graph_path(given)
    plot_path = plot_file(given, graph_path)
    certificate = planned(given, graph_path, plot_path)
    files = result_files(given, graph_path, plot_path, certificate.path, certificate.signature)
    target = _target_of(given)
    template = _template(given)
    question = None if template else _question(given)
    with working(patience=1.0) as progress:
        found, graph, content = _found(given, template, question, target, progress)
        from hockeystick._report.results import calibrate_result

        guarantee = graph.guarantee()
        result = calibrate_result(guarantee, _delta(given), content, step=progress)
        picture = None
        if plot_path is not None:
            progress("drawing")
            picture = _picture(plot_path, given, template, question, content, target)
    if graph_path is not None:
        write(graph_path, graph.to_json())
    if plot_path is not None and picture is not None:
        write(plot_path, picture)
    write_certificate(certificate, guarantee, _delta(given))
    deliver(files, result)
    if found.rejected is None:
        warn("every value meets the target, up to the end of the range that was searched")
    return 0


calibrate_command.training = calibrate_training


def _found(
    given: Given, template: Template | None, question: Question | None, target: dict[str, float], progress: Any
) -> tuple[Calibrated, AccountantGraph, dict[str, Any]]:
    """Returns the value, the graph with it, and the entries of the result."""
    from hockeystick._runs.calibration import found_content
    from hockeystick.accounting import calibrate as search

    build, parameter, whole, others = _open(given, template, question)

    def at(value: float) -> AccountantGraph:
        progress(f"calibrating {parameter}")
        graph: AccountantGraph = build(value)
        return graph

    share = question.sampling is None if question is not None else template is not None and template.share
    found = search(at, _goal(target), integer=whole, **({"high": 1.0, "guess": 0.01} if share else {}))
    content = found_content(given["what"], parameter, found, whole=whole, target=target, given=others)
    if question is not None:
        content |= {"unit": question.unit, "noise_multiplier": question.multiplier(found.value)}
    return found, build(found.value), content


def _picture(
    path: Path,
    given: Given,
    template: Template | None,
    question: Question | None,
    content: Mapping[str, Any],
    target: Mapping[str, float],
) -> bytes:
    """Returns the picture of ``--plot``: ε over the parameter, and the trade-off curve of the value that was found."""
    build, parameter, whole, _ = _open(given, template, question)
    limit = 1.0 if parameter == "sampling" or (template is not None and template.share) else math.inf
    return calibration_picture(
        path,
        build=lambda value: build(value).guarantee(),
        parameter=parameter,
        value=content["value"],
        whole=whole,
        delta=_delta(given),
        target=target.get("epsilon"),
        limit=limit,
    )


def _open(given: Given, template: Template | None, question: Question | None) -> tuple[Any, str, bool, dict[str, Any]]:
    """Returns the function that builds a graph, the parameter's name, whether it is whole, and the other numbers."""
    if template is not None:
        return template.graph, template.parameter, template.whole, {}
    assert question is not None
    names = ("noise", "count", "clip", "sampling", "batch", "population")
    others = {name: getattr(question, name) for name in names if getattr(question, name) is not None}
    others["sensitivity"] = question.distance
    if others.get("sampling") == 1.0:
        del others["sampling"]
    return question.graph, question.parameter, question.count is None, others


def _template(given: Given) -> Template | None:
    what = given["what"]
    if what != "-" and not what.endswith(".json"):
        return None
    refuse(given, "is for a named mechanism; a graph has its own", *_OF_MECHANISMS)
    if given["find"] != "noise":
        raise click.UsageError('--find is for a named mechanism; in a graph "?" marks the number to calibrate')
    from hockeystick._runs.calibration import Template
    from hockeystick.accounting import GraphError

    try:
        return Template.read(read_text("GRAPH.json", what, "write one with AccountantGraph.to_json()"))
    except GraphError as error:
        raise GraphError(f"{what}: {error}") from error


_OF_MECHANISMS = ("noise", "count", "sensitivity", "clip", "sampling", "batch", "population", "adjacency")


def _question(given: Given) -> Question:
    from hockeystick._runs.calibration import Question, mechanism_named
    from hockeystick.accounting import Adjacency

    given["what"] = mechanism_named(given["what"])
    find = given["find"]
    refuse(given, f"can't be combined with --find {find}, which calibrates it", find)
    if find != "noise":
        need(given, f"--find {find}", "noise")
    if (given["batch"] is None) != (given["population"] is None):
        need(given, "a sample of fixed size", "batch", "population")
    relation = given["adjacency"] or ("add-or-remove-one" if given["batch"] is None else "replace-one")
    if given["batch"] is not None:
        refuse(given, "can't be combined with --batch", "sampling")
        if find == "sampling" or relation != "replace-one":
            raise click.UsageError("--batch needs --adjacency replace-one, and can't be combined with --find sampling")
        _need_a_distance(given)
    elif relation == "replace-one" and (find == "sampling" or given["sampling"] is not None):
        raise click.UsageError("--sampling is for add-or-remove-one; under replace-one give --batch and --population")
    if given["clip"] is not None:
        refuse(given, "can't be combined with --clip, which determines it", "sensitivity")
        if math.isinf(2.0 * given["clip"]):
            raise click.UsageError("--clip is too large: 2·C is above the largest float")
    if given["epsilon"] is not None and not given["delta"] and given["what"] not in ("laplace", "discrete-laplace"):
        raise click.UsageError(f"--delta is missing: {given['what']} noise has no finite ε at δ = 0")
    return Question(
        mechanism=given["what"],
        count=None if find == "count" else given["count"] or 1,
        sampling=None if find == "sampling" else given["sampling"] or 1.0,
        adjacency=Adjacency(relation),
        **picked(given, "sensitivity", "clip", "noise", "batch", "population"),
    )


def _need_a_distance(given: Given) -> None:
    """Refuses samples of fixed size with the default sensitivity, which would be half of what most people mean."""
    if given["clip"] is None and given["sensitivity"] is None:
        raise click.UsageError(
            "--batch needs --clip or --sensitivity: under replace-one, a sum to which each record adds at most C has "
            "sensitivity 2·C. Give --clip C, or the sensitivity itself"
        )


def _target_of(given: Given) -> dict[str, float]:
    """Returns the given target by name and value."""
    attack = given["tpr"] is not None or given["fpr"] is not None
    if (given["epsilon"] is not None) + (given["advantage"] is not None) + attack != 1:
        raise click.UsageError("give one target: --epsilon (with --delta), --advantage, or --tpr with --fpr")
    if given["epsilon"] is not None:
        return {"epsilon": given["epsilon"], "delta": given["delta"] or 0.0}
    if attack:
        need(given, "a bound on membership attacks", "tpr", "fpr")
        return {"true_positive_rate": given["tpr"], "false_positive_rate": given["fpr"]}
    return {"advantage": given["advantage"]}


def _goal(target: dict[str, float]) -> Any:
    from hockeystick.accounting import Advantage, EpsilonDelta, InvalidArgumentError, TruePositiveRate

    kinds: dict[str, Any] = {"epsilon": EpsilonDelta, "advantage": Advantage, "true_positive_rate": TruePositiveRate}
    try:
        return kinds[next(iter(target))](**target)
    except InvalidArgumentError as error:
        raise InvalidArgumentError("--tpr", error.value, error.reason, "give a --tpr above --fpr") from None


def _delta(given: Given) -> float:
    """Returns the δ at which the guarantee is stated."""
    return given["delta"] if given["delta"] is not None else 0.0 if given["epsilon"] is not None else 1e-6


def _graph_path(given: Given) -> Path | None:
    return None if given["graph_file"] is None else output_file("--graph", given["graph_file"])
