"""``hockeystick bench accounting``: how tight accountants are, whether they ever say too little, and their time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.frame.ending import working
from hockeystick._cli.frame.option_types import TargetName, named_by
from hockeystick._cli.frame.result_files import deliver, result_files
from hockeystick._cli.frame.shared_options import output_options
from hockeystick._cli.frame.streams import target_output_to_stderr

if TYPE_CHECKING:
    from hockeystick.accounting.rating.compositions import KnownComposition
    from hockeystick.accounting.rating.rating import Answer, RatedAccountant


@click.command()
@click.option(
    "--accountant",
    "names",
    multiple=True,
    metavar="NAME|MODULE:CALLABLE",
    type=TargetName(),
    help="What to rate: hockeystick, dp-accounting-pld, dp-accounting-rdp (all of them without it), or a function of "
    "yours. May be given several times.",
)
@click.option("--quick", is_flag=True, help="A few compositions only.")
@output_options()
def accounting(names: tuple[str, ...], quick: bool, **given: Any) -> int:
    """Rate accountants: is their ε ever below the truth, how far is it above, and how long does it take?

    Each accountant is asked for the ε of compositions whose ε is known: by closed forms (Gaussian and Laplace noise),
    by exact laws (randomised response, discrete Laplace noise), or between ends that are nearly the same (Gaussian
    noise on Poisson samples). One ε below the truth makes it INVALID. What it refuses is not held against it.

    \b
    Examples:
      hockeystick bench accounting
      hockeystick bench accounting --quick --accountant hockeystick --accountant myaccountant.py:epsilon
      hockeystick bench accounting --json result.json --markdown comment.md

    \b
    An accountant of yours is a function
      epsilon(event, delta) -> float
    of a dp_accounting.DpEvent and a δ in [0, 1). Events are meant for adding or removing
    one record; randomised response, which has no such meaning, for replacing one. What it
    has no answer to, it refuses by an exception.

    \b
    Exit status:
      0  no accountant is below the truth, on these compositions
      1  one is: INVALID
      2  could not run
    """
    from hockeystick.accounting.rating.compositions import known_compositions
    from hockeystick.accounting.rating.rating import ACCOUNTANTS, rate

    files = result_files(given)
    rated = [_accountant(name) for name in dict.fromkeys(names)] or list(ACCOUNTANTS)
    compositions = [one for one in known_compositions() if one.quick or not quick]
    with working() as progress, target_output_to_stderr():
        answers = list(rate(rated, compositions, progress=progress))
    content = _content(rated, compositions, answers)
    deliver(files, content)
    return 1 if "INVALID" in content["judgements"].values() else 0


def _accountant(name: str) -> RatedAccountant:
    from hockeystick._files.named_callables import load_object
    from hockeystick.accounting.rating.rating import RatedAccountant, accountant

    with named_by("--accountant", name):
        return accountant(name) if ":" not in name else RatedAccountant(name, load_object(name))


def _content(
    rated: list[RatedAccountant], compositions: list[KnownComposition], answers: list[Answer]
) -> dict[str, Any]:
    from attrs import asdict

    from hockeystick._report.results import bench_accounting_result
    from hockeystick.accounting.rating.rating import TOLERANCE, judge

    ratios = ("ratio", "ratio_most", "ratio_of_lower", "judgement")
    known = {one.name: one for one in compositions}
    return bench_accounting_result(
        {
            "settings": {"compositions": len(compositions), "tolerance": TOLERANCE},
            "judgements": {
                one.name: judge(answer for answer in answers if answer.accountant == one.name) for one in rated
            },
            "answers": [
                {
                    **asdict(answer),
                    "delta": known[answer.composition].delta,
                    "truth_source": known[answer.composition].source,
                    **{name: getattr(answer, name) for name in ratios},
                }
                for answer in answers
            ],
        }
    )
