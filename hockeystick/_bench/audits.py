"""``hockeystick bench``: rates what the package rests on, auditors here and accountants in ``_bench.accounting``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hockeystick._bench.accounting import accounting
from hockeystick._cli.frame.option_types import Count, FileName, Real, TargetName, named_by
from hockeystick._cli.frame.result_files import deliver, result_files
from hockeystick._cli.frame.shared_options import output_options
from hockeystick._cli.frame.streams import Interrupted, Progress, warn

if TYPE_CHECKING:
    from pathlib import Path

    from hockeystick.audits.rating.estimators import Estimator
    from hockeystick.audits.rating.rating import Efficiency, FalseAlarms, Settings

_SCHEMA = 1
_QUICK_REPLICATIONS = 300
_QUICK_TIGHT = ("laplace 1", "randomised response 1", "leaky response (1, 0.05)", "gaussian curve (1, 0.01)")
_QUICK_BROKEN = ("laplace 1, true 2x", "leaky response (1, 0.05), true 1.5x")


@click.group(invoke_without_command=True)
@click.pass_context
def bench(ctx: click.Context) -> int:
    """Rate what the package rests on."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


bench.add_command(accounting)


@bench.command()
@click.option(
    "--estimator",
    "names",
    multiple=True,
    metavar="NAME|MODULE:CALLABLE",
    type=TargetName(),
    help="What to rate; without it all bounds of the package that assume nothing. May be given several times.",
)
@click.option("--quick", is_flag=True, help="Fewer targets, and 300 replications: minutes instead of hours.")
@click.option(
    "--alpha",
    default=0.05,
    metavar="A",
    type=Real(0.0, 0.5, low_open=True, high_open=True),
    help="Probability with which a true claim may be refuted; 0.05 without it.",
)
@click.option(
    "--replications", metavar="R", type=Count(100), help="Audits for each rate; 2000 without it (--quick: 300)."
)
@click.option("--samples", default=500, metavar="N", type=Count(20), help="Outputs of each data set in those audits.")
@click.option("--seed", default=0, metavar="S", type=Count(0, None), help="Of all random numbers; 0 without it.")
@output_options()
@click.option(
    "--resume",
    metavar="FILE",
    type=FileName("kept"),
    help="Keep what is finished in FILE, and go on from what it holds of an earlier run.",
)
def audits(
    names: tuple[str, ...],
    quick: bool,
    alpha: float,
    replications: int | None,
    samples: int,
    seed: int,
    resume: str | None,
    **given: Any,
) -> int:
    """Audit the auditors: false alarms and samples needed.

    Each estimator meets targets that are exactly as private as they claim: refuting more than a share A of them makes
    it INVALID. Then it meets targets that claim too little, and the samples at which it refutes 90 % of them are set
    against what the best test needs.

    \b
    Examples:
      hockeystick bench audits --quick
      hockeystick bench audits --estimator audit --estimator mybound.py:estimate
      hockeystick bench audits --resume rates.json --json result.json

    \b
    An estimator of yours is a function
      estimate(samples0, samples1, claim, alpha, rng) -> (refuted, epsilon_lower)
    of two arrays of numbers, outputs on two neighbouring data sets; a claim with
    claim.epsilon, claim.delta and claim.points; the level; and a numpy Generator.

    \b
    Exit status:
      0  no estimator raises more false alarms than it may, as far as can be told
      1  one does: INVALID
      2  could not run
    """
    from attrs import asdict

    from hockeystick.audits.rating.estimators import ESTIMATORS
    from hockeystick.audits.rating.rating import Settings, rate
    from hockeystick.audits.rating.targets import broken_targets, tight_targets

    files = result_files(given)
    rated = (
        [_estimator(name) for name in dict.fromkeys(names)] if names else [one for one in ESTIMATORS if not one.assumes]
    )
    settings = Settings(alpha, samples, replications or (_QUICK_REPLICATIONS if quick else 2000), seed)
    tight = [target for target in tight_targets() if not quick or target.name in _QUICK_TIGHT]
    broken = [target for target in broken_targets() if not quick or target.name in _QUICK_BROKEN]
    kept = _Kept.at(resume, {**asdict(settings), "targets": len(tight)})
    try:
        with Progress() as progress:
            for found in rate(rated, tight, broken, settings, finished=kept.results, progress=progress):
                kept.add(found)
    except KeyboardInterrupt:
        saved = f"; what is finished is in {resume}" if resume else "; --resume FILE would have kept what was finished"
        if not kept.results:
            saved = "; nothing was finished yet"
        raise Interrupted("interrupted" + saved) from None
    asked = {one.name for one in rated}, {one.name for one in [*tight, *broken]}
    results = [one for one in kept.results if one.estimator in asked[0] and one.target in asked[1]]
    content = _content(results, settings)
    deliver(files, content)
    for one in rated:
        if one.assumes:
            warn(f"{one.name}: assumes {one.assumes}")
    return 1 if "INVALID" in content["judgements"].values() else 0


def _estimator(name: str) -> Estimator:
    from hockeystick._files.named_callables import load_target
    from hockeystick.audits.rating.estimators import Estimator, estimator

    with named_by("--estimator", name):
        return estimator(name) if ":" not in name else Estimator(name, load_target(name))


class _Kept:
    """The finished measurements, in a file too if there is one: it is replaced as a whole after each."""

    def __init__(self, path: Path | None, settings: dict[str, Any], results: list[FalseAlarms | Efficiency]) -> None:
        self.path, self.settings, self.results = path, settings, results

    @classmethod
    def at(cls, file: str | None, settings: dict[str, Any]) -> _Kept:
        """Reads what an earlier run has left.

        Raises:
          InvalidArgumentError: the file can't be written, holds something else, or a run of other settings.
        """
        from hockeystick._files.named_callables import decode_json
        from hockeystick._files.result_files import check_writable
        from hockeystick.accounting import InvalidArgumentError
        from hockeystick.audits.rating.rating import from_dict

        if file is None:
            return cls(None, settings, [])
        path = check_writable("--resume", file)
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if not text:
            return cls(path, settings, [])
        try:
            plain = decode_json(text)
            results = [from_dict(one) for one in plain["results"]]
            same = plain["schema"] == _SCHEMA and plain["settings"] == settings
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            reason = f"holds no finished measurements ({type(error).__name__})"
            raise InvalidArgumentError("--resume", file, reason, "give another file") from None
        if not same:
            raise InvalidArgumentError(
                "--resume", file, f"is of a run with {plain['settings']}, not {settings}", "give another file"
            )
        return cls(path, settings, results)

    def add(self, result: FalseAlarms | Efficiency) -> None:
        from hockeystick.audits.rating.rating import to_dict

        self.results.append(result)
        if self.path is not None:
            plain = [to_dict(one) for one in self.results]
            _write(self.path, {"schema": _SCHEMA, "settings": self.settings, "results": plain})


def _write(path: Path, content: dict[str, Any]) -> None:
    from hockeystick._files.result_files import write_atomically
    from hockeystick._report.results import to_json

    write_atomically(path, to_json(content))


def _content(results: list[FalseAlarms | Efficiency], settings: Settings) -> dict[str, Any]:
    from attrs import asdict

    from hockeystick.audits.rating.rating import FalseAlarms, judge, to_dict
    from hockeystick.audits.verdicts.verdict import versions

    alarms = [one for one in results if isinstance(one, FalseAlarms)]
    needed = [one for one in results if not isinstance(one, FalseAlarms)]
    names = dict.fromkeys(one.estimator for one in alarms)
    return {
        "schema_version": _SCHEMA,
        "command": "bench audits",
        "settings": asdict(settings),
        "judgements": {name: judge(one for one in alarms if one.estimator == name) for name in names},
        "false_alarms": [{**to_dict(one), "rate": one.rate, "judgement": one.judgement} for one in alarms],
        "samples": [{**to_dict(one), "ratio": None if one.n90 == float("inf") else one.ratio} for one in needed],
        "versions": dict(versions()),
    }
