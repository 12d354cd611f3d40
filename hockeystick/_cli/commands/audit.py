"""``hockeystick audit``: tries to refute a privacy claim about a function, or all claims of the catalogue."""

from __future__ import annotations

import contextlib
import os
import secrets
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.commands.audit_search import OPTIONS as WITH_SEARCH
from hockeystick._cli.commands.audit_search import (
    as_text,
    audit_worst,
    content,
    is_module,
    load_domain,
    search_options,
    show_search,
)
from hockeystick._cli.frame.option_types import Count, DataText, FileName, Real, TargetName
from hockeystick._cli.frame.result_files import deliver, result_files
from hockeystick._cli.frame.shared_options import output_options
from hockeystick._cli.frame.streams import Interrupted, Progress, target_output_to_stderr, warn

if TYPE_CHECKING:
    from hockeystick.audits import SearchedAudit, Verdict

_DATA = "Inline JSON, or a .json, .npy or .csv file."


@click.command()
@click.argument("target", nargs=-1, metavar="MODULE:CALLABLE", type=TargetName())
@click.option("--d0", metavar="X", type=DataText(), help=f"A data set. {_DATA}")
@click.option("--d1", metavar="Y", type=DataText(), help=f"A neighbour of it. {_DATA}")
@search_options()
@click.option("--epsilon", metavar="E", type=Real(0.0, 700.0), help="The claimed ε.")
@click.option("--delta", default=0.0, metavar="D", type=Real(0.0, 1.0), help="The claimed δ; 0 without it.")
@click.option(
    "--samples", metavar="N", type=Count(1), help="Outputs drawn from each data set, for all purposes together."
)
@click.option(
    "--confidence",
    metavar="C",
    type=Real(0.5, 1.0, low_open=True, high_open=True),
    help="Probability that a true claim is not refuted; 0.999 without it.",
)
@click.option(
    "--seed", metavar="S", type=Count(0, None), help="Of all random numbers; without it a new one is drawn and shown."
)
@click.option("--bits", is_flag=True, help="Also attack the bit patterns of floating-point outputs.")
@click.option("--exceptions-as-output", is_flag=True, help="Count an exception as one more output of the target.")
@click.option(
    "--attack",
    type=click.Choice(("auto", "simple", "logistic", "trees", "neighbours")),
    help="Classifiers to score outputs of several numbers by; auto without it.",
)
@click.option(
    "--workers",
    metavar="W",
    type=int,
    help="Processes that draw outputs, or audit a case of the catalogue each; -1 for all cores, 1 without it.",
)
@click.option("--backend", metavar="NAME", help="A joblib backend to work with: dask, loky, ...")
@click.option("--address", metavar="URL", help="With --backend dask: of the scheduler.")
@click.option(
    "--checkpoint",
    metavar="FILE",
    type=FileName("kept", beside=(".audit", ".part", ".audit.part")),
    help="Keep what is drawn there; the same command continues from it.",
)
@click.option("--traceback", "full", is_flag=True, help="Show all of an error that the target raises.")
@output_options()
@click.option("--catalogue", is_flag=True, help="Audit what is known to be right or wrong; arguments are patterns.")
@click.option("--list", "listing", is_flag=True, help="With --catalogue: show the cases and audit none.")
@click.option(
    "--seconds",
    metavar="T",
    type=Real(0.0, low_open=True),
    help="With --catalogue: about so long for each case, with fewer samples if need be.",
)
@click.option(
    "--resume",
    metavar="FILE",
    type=FileName(replaced_by="--json"),
    help="With --catalogue: continue the run whose --json wrote this file.",
)
@click.pass_context
def audit(
    ctx: click.Context,
    target: tuple[str, ...],
    d0: str | None,
    d1: str | None,
    search: str | None,
    adjacency: str | None,
    group: int | None,
    search_samples: int | None,
    finalists: int | None,
    epsilon: float | None,
    delta: float,
    samples: int | None,
    confidence: float | None,
    seed: int | None,
    bits: bool,
    exceptions_as_output: bool,
    attack: str | None,
    workers: int | None,
    backend: str | None,
    address: str | None,
    checkpoint: str | None,
    full: bool,
    json_file: str | None,
    html_file: str | None,
    markdown_file: str | None,
    catalogue: bool,
    listing: bool,
    seconds: float | None,
    resume: str | None,
) -> int:
    """Try to refute that a function is (ε, δ)-differentially private.

    The function is f(data, rng), which returns one output, or f(data, rng, runs), which returns outputs with runs on
    the leading axis; rng is a numpy Generator. It is run on two data sets that you say are neighbours, many times, and
    an event is searched whose probabilities contradict the claim. Outputs may be numbers, arrays, strings, tuples or
    None. MODULE is a file (path/to/mymech.py), a file in the working directory (mymech), or an importable module.

    \b
    Examples:
      hockeystick audit mymech.py:release --d0 0 --d1 1 --epsilon 1
      hockeystick audit mymech:noisy_mean --d0 old.csv --d1 new.csv \\
          --epsilon 0.5 --delta 1e-6 --samples 1e6 --html report.html
      hockeystick audit mymech:vote --d0 '["a", "b"]' --d1 '["a", "a"]' \\
          --epsilon 1 --seed 7 --json -
      hockeystick audit mymech:count --search counts --epsilon 1 \\
          --adjacency add-or-remove-one
      hockeystick audit --catalogue 'zoo/svt-*@1' --seed 7 --json zoo.json

    \b
    Data (X and Y):
      text ending in .json, .npy or .csv   a path
      anything else                        inline JSON, which reaches the function
                                           as the decoded Python value; NaN,
                                           Infinity and -Infinity are allowed
      .npy                                 an array (none of Python objects)
      .csv                                 a float64 array of shape (rows, columns);
                                           a first line without numbers is a header

    \b
    Data sets to be searched (DOMAIN), in place of X and Y:
      counts, histogram, sums              one exact answer, from 0 to 10
      '{"answers": "counts", "size": 3}'   three; also "low", "high", "sensitivity"
      '[0, 1, "x"]'                        lists of up to 20 of these values
      '{"values": [0, 1], "most": 50}'     up to 50; also "least", "null", "ordered"
      '{"low": -1, "high": 1}'             arrays of numbers in this range; also
                                           "dimension", "integral", and as above
      .json                                a file that holds one of these
      module:name                          a domain, a function that returns one,
                                           or f(rng) that returns two neighbours

    A search rates pairs on few outputs, and most on the worst ones; the verdict is on the best pair (or on F, at one
    joint confidence) and rests on outputs that the search never saw. --samples is for the verdict.

    \b
    Outcomes and exit status:
      0  consistent: no violation found; the report says what would have been
      0  inconclusive (with a warning): too few samples to say anything useful
      1  refuted: the claim is false, with the stated confidence
      2  could not run: unusable input, or the function raised an error

    What the function prints goes to the standard error stream. In the JSON an infinite number is the string "inf".

    With --catalogue the cases whose names match any PATTERN (as of shell files: 'zoo/*') are audited, all without one:
    mechanisms of the literature, and the mechanisms and learners here with broken variants of them. --samples is then
    for each case (without it, what the case states), and --confidence for all k cases together: each is audited at
    1 - (1 - C)/k. The file of --json is written after every case; what Ctrl-C leaves, --resume continues.

    \b
    Exit status with --catalogue:
      0  no correct case is refuted, and every broken one is that was given the
         samples it states
      1  otherwise
      2  could not run
    """
    for name, value in (("--list", listing), ("--seconds", seconds), ("--resume", resume)):
        if value and not catalogue:
            raise click.UsageError(f"{name} goes with --catalogue", ctx)
    written = {"json_file": json_file, "html_file": html_file, "markdown_file": markdown_file}
    searching = {name: ctx.params[name] for name in WITH_SEARCH}
    for name, value in searching.items():
        if value is not None and search is None:
            raise click.UsageError(f"--{name.replace('_', '-')} goes with --search", ctx)
    if catalogue:
        from hockeystick._cli.commands.audit_catalogue import run

        _refuse_with_catalogue(ctx)
        return run(
            target,
            listing=listing,
            samples=samples,
            seconds=seconds,
            confidence=confidence,
            seed=seed,
            written=written,
            resume=resume,
            hands=_given(workers=workers, backend=backend, address=address),
        )
    given = {"target": target[0] if target else None, "epsilon": epsilon}
    if search is None:
        given |= {"d0": d0, "d1": d1}
    elif d0 is not None or d1 is not None:
        raise click.UsageError("--search finds the data sets: leave out --d0 and --d1", ctx)
    else:
        given |= {"adjacency": adjacency}
    for parameter in ctx.command.params:
        if given.get(parameter.name or "", ()) is None:
            raise click.MissingParameter(ctx=ctx, param=parameter)
    if len(target) > 1:
        raise click.UsageError(f"Got unexpected extra argument ({' '.join(target[1:])})", ctx)
    assert epsilon is not None
    return _audit_one(
        target[0],
        (d0, d1) if d0 is not None and d1 is not None else None,
        (epsilon, delta),
        search=search,
        searching=searching,
        full=full,
        seed=secrets.randbits(32) if seed is None and checkpoint is None else seed,  # a checkpoint has its own
        written=written,
        samples=samples,
        confidence=confidence,
        bits=bits,
        exceptions_as_output=exceptions_as_output,
        attack=attack,
        workers=workers,
        backend=backend,
        address=address,
        checkpoint=checkpoint,
    )


def _refuse_with_catalogue(ctx: click.Context) -> None:
    """Refuses options that say what a catalogue's case says itself."""
    names = {"d0", "d1", "search", "epsilon", "delta", "bits", "exceptions_as_output", "full"}
    names |= {"attack", "checkpoint"}
    for parameter in ctx.command.params:
        given = ctx.get_parameter_source(parameter.name or "") not in (None, click.core.ParameterSource.DEFAULT)
        if parameter.name in names and given:
            raise click.UsageError(f"{parameter.opts[0]} does not go with --catalogue", ctx)


def _audit_one(
    target: str,
    named: tuple[str, str] | None,
    claim: tuple[float, float],
    *,
    search: str | None,
    searching: dict[str, Any],
    full: bool,
    seed: int | None,
    written: dict[str, str | None],
    **options: Any,
) -> int:
    from hockeystick._files.named_callables import load_data, load_target
    from hockeystick._files.result_files import check_writable

    files = result_files(written)
    if options["checkpoint"] is not None:
        check_writable("--checkpoint", options["checkpoint"])  # now: the first samples may be hours away
    data = None if named is None else (load_data("--d0", named[0]), load_data("--d1", named[1]))
    found: SearchedAudit | None = None
    context: dict[str, Any] = {}
    with target_output_to_stderr(), _target_errors(target, full, options["checkpoint"]), Progress() as progress:
        loaded = load_target(target)
        given = _given(rng=seed, identity=_identity(target, loaded, search, options["checkpoint"]), **options)
        if named is not None:
            verdict = _audit(loaded, target, claim, data, progress, **given)
        else:
            assert search is not None
            found = audit_worst(loaded, target, load_domain(search), claim, progress, **given, **_given(**searching))
            verdict, context = found.verdict, {"search": content(found, search)}
            named = as_text(found.pair.d0), as_text(found.pair.d1)
    from hockeystick._report.results import audit_result

    warnings = [_as_options(warning) for warning in verdict.warnings]
    result = audit_result(
        verdict, target=target, d0=named[0], d1=named[1], seed=verdict.seed, warnings=warnings, **context
    )
    deliver(files, result)
    if found is not None:
        show_search(found, err=files.stdout is not None)
    for warning in warnings:
        warn(warning)
    if result["outcome"] == "inconclusive":
        warn("inconclusive: too few samples to say anything useful; give more --samples")
    return 1 if result["refuted"] else 0


def _identity(target: str, loaded: Any, search: str | None, checkpoint: str | None) -> str | None:
    """What must be the same for a checkpoint to be gone on from, beside what the library is asked: all code named."""
    from hockeystick._files.named_callables import load_object, source_identity

    if checkpoint is None:
        return None
    found = source_identity(target, loaded)
    if search is not None and is_module(search):
        found += "\n" + source_identity(search, load_object(search))
    return found


def _audit(target: Any, name: str, claim: tuple[float, float], data: Any, progress: Progress, **given: Any) -> Verdict:
    from hockeystick.audits import Claim
    from hockeystick.audits import audit as run_audit

    progress(f"auditing {name}")
    return run_audit(
        target,
        claim=Claim(*claim),
        neighbours=data,
        progress=lambda done, total: progress(f"auditing {name}", done / total),
        **given,
    )


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _as_options(text: str) -> str:
    """Returns what the library says about its arguments in the words of the command line."""
    return text.replace("exceptions_as_output=True", "--exceptions-as-output").replace("bits=True", "--bits")


@contextlib.contextmanager
def _target_errors(spec: str, full: bool, checkpoint: str | None) -> Iterator[None]:
    """Turns what goes wrong with the target into one line in the words of the command line."""
    from hockeystick._files.named_callables import TargetImportError, describe_error
    from hockeystick.accounting import InvalidArgumentError
    from hockeystick.audits import TargetError, WorkerError

    try:
        yield
    except InvalidArgumentError as error:
        name = error.argument if error.argument.startswith("--") else "--" + error.argument.replace("_", "-")
        if error.argument == "target":
            name, error.value = "MODULE:CALLABLE", spec
        raise InvalidArgumentError(name, error.value, error.reason, error.remedy) from error
    except (TargetError, TargetImportError) as error:
        if full and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        hint = "" if full or error.__cause__ is None else "; --traceback shows all of it"
        raise click.ClickException(_as_options(str(error)) + hint) from error
    except WorkerError as error:
        raise click.ClickException(f"{error}{_kept(checkpoint)}") from error
    except SystemExit as error:  # no target may choose our exit status
        raise click.ClickException(f"the target ended the program: {describe_error(error)}") from error
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted before there was a verdict; result files are unchanged{_kept(checkpoint)}"
        ) from None


def _kept(checkpoint: str | None) -> str:
    """What to say of the checkpoint, once the work has stopped; the first samples are kept when they are complete."""
    if checkpoint is None:
        return ""
    if os.path.exists(checkpoint):
        return f"; the same command continues from {checkpoint}"
    return f"; nothing was kept in {checkpoint} yet"
