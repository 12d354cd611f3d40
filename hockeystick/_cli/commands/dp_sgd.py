"""``hockeystick calibrate dp-sgd`` and ``hockeystick account dp-sgd``: a training in the terms of its user."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.frame.certificate_files import certificate_options, planned, write_certificate
from hockeystick._cli.frame.destinations import deliver, result_files, write
from hockeystick._cli.frame.ending import working
from hockeystick._cli.frame.option_types import Command, Count, Real, together
from hockeystick._cli.frame.plot_files import calibration_picture, plot_file, plot_option
from hockeystick._cli.frame.shared_options import POSITIVE, SHARE, Given, option, output_options

if TYPE_CHECKING:
    from hockeystick.accounting import DPSGD

WORD = "dp-sgd"
_SAMPLINGS = ("poisson", "without-replacement", "full", "allocation", "allocation-fixed", "shuffle")
_RELATIONS = ("add-or-remove-one", "replace-one", "replace-with-null")


def _training() -> Callable[[Command], Command]:
    return together(
        option("--records N", Count(1), "The number of records.", required=True),
        option("--batch B", Count(1), "Records per batch, on average. Default with --sampling full: all of them."),
        option("--epochs E", Real(0.0, low_open=True), "Passes over the data.", required=True),
        option("--clip C", POSITIVE, "The L2 norm to which each record's gradient is clipped."),
        option("--sampling S", click.Choice(_SAMPLINGS), "The sampling of batches.", default="poisson"),
        option(
            "--strategy banded:K|blt:D",
            str,
            "Noise correlated over steps: banded:K by a matrix of K bands (BandMF), with Poisson samples of K groups "
            "in turn; blt:D by a filter of D buffers, with --sampling shuffle and the same order in every epoch.",
        ),
        option("--user-records K", Count(1), "Protect users, each of whom owns at most K records. Default: 1."),
        option(
            "--adjacency",
            click.Choice(_RELATIONS),
            "The neighbouring relation. Default: add-or-remove-one for poisson and full, replace-one for "
            "without-replacement, replace-with-null for the others.",
        ),
    )


class WithTraining(click.Command):
    """A command whose first word may be ``dp-sgd``, which has options of its own."""

    training: click.Command

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> click.Context:
        """As click does; of the other command after the word ``dp-sgd``."""
        if args and _plain(args[0]) == _plain(WORD):
            return self.training.make_context(f"{info_name} {WORD}", args[1:], parent=parent, **extra)
        return super().make_context(info_name, args, parent=parent, **extra)


def _plain(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")


def refuse_late_word(what: str) -> None:
    """Raises a usage error if ``dp-sgd`` does not come first, where its options are unknown."""
    if _plain(what) == _plain(WORD):
        raise click.UsageError(f"{WORD} has its own options: write it before them, as the first word")


@click.command(WORD)
@_training()
@option("--epsilon E", POSITIVE, "Target: (E, D)-differential privacy.", required=True)
@option("--delta D", SHARE, "The δ of the target.", required=True)
@plot_option
@certificate_options()
@output_options()
def calibrate_training(**given: Any) -> int:
    """Find the noise with which DP-SGD is (E, D)-differentially private.

    The first line states ε, δ, the noise multiplier (noise/clip), the neighbouring relation and the sampling. Then
    follow what the data loader must do for it to hold, and the noise multiplier that each other sampling would need.

    A record's gradient, clipped to C, moves the sum of a batch by C if it is added or removed, and by 2·C if it is
    replaced. The noise multiplier counts in C in all cases; under replace-one --clip is required.

    \b
    Samplings:
      poisson               each record is in each batch with probability B/N
      without-replacement   each step draws a new batch of exactly B records
      full                  each step reads all records
      allocation            each record takes one step of each epoch, chosen anew
      allocation-fixed      each record takes the same step in every epoch
      shuffle               a shuffled list is cut into batches (no amplification)

    \b
    Examples:
      hockeystick calibrate dp-sgd --records 60000 --batch 256 --epochs 10 --epsilon 3 --delta 1e-5
      hockeystick calibrate dp-sgd --records 60000 --batch 256 --epochs 10 --epsilon 3 --delta 1e-5 --clip 1
          --sampling without-replacement
      hockeystick calibrate dp-sgd --records 9000 --batch 90 --epochs 2 --epsilon 8 --delta 1e-5 --user-records 4

    Exit status: 0, or 2 if no noise multiplier meets the target.
    """
    plot_path = plot_file(given)
    certificate = planned(given, plot_path)
    files = result_files(given, plot_path, certificate.path, certificate.signature)
    run = _run(given)
    epsilon, delta = given["epsilon"], given["delta"]
    from hockeystick._runs.guarantee_entries import other_samplings, training_content

    with working(patience=1.0) as progress:
        progress("calibrating the noise multiplier")
        found = run.calibrated(epsilon, delta)
        content = training_content(run, found.value, delta) | {
            "target": {"epsilon": epsilon, "delta": delta},
            "rejected": found.rejected,
            "others": other_samplings(run, delta, progress, epsilon=epsilon),
        }
        from hockeystick._report.results import dp_sgd_result

        guarantee = run.guarantee(found.value)
        result = dp_sgd_result("calibrate", guarantee, delta, content, step=progress)
        picture = None
        if plot_path is not None:
            progress("drawing")
            picture = calibration_picture(
                plot_path,
                build=run.guarantee,
                parameter="noise multiplier",
                value=found.value,
                whole=False,
                delta=delta,
                target=epsilon,
            )
    if plot_path is not None and picture is not None:
        write(plot_path, picture)
    write_certificate(certificate, guarantee, delta)
    deliver(files, result)
    return 0


@click.command(WORD)
@_training()
@option("--noise-multiplier M", POSITIVE, "The noise, divided by the clip.")
@option("--noise S", POSITIVE, "Instead: the standard deviation of the noise on the sum of a batch. Needs --clip.")
@option("--delta D", SHARE, "The δ at which to state ε.", required=True)
@certificate_options()
@output_options()
def account_training(**given: Any) -> int:
    """Certify the privacy of DP-SGD with given noise.

    The first line states ε, δ, the noise multiplier (noise/clip), the neighbouring relation and the sampling. Then
    follow what the data loader must do for it to hold, and the ε that each other sampling would give.
    "hockeystick calibrate dp-sgd --help" describes the samplings.

    \b
    Examples:
      hockeystick account dp-sgd --records 60000 --batch 256 --epochs 10 --noise-multiplier 1 --delta 1e-5
      hockeystick account dp-sgd --records 60000 --batch 256 --epochs 10 --noise 0.5 --clip 0.5 --delta 1e-5

    Exit status: 0, or 2 if the numbers don't fit together.
    """
    certificate = planned(given)
    files = result_files(given, certificate.path, certificate.signature)
    run = _run(given)
    multiplier = _multiplier(given)
    from hockeystick._runs.guarantee_entries import other_samplings, training_content

    with working(patience=1.0) as progress:
        content = training_content(run, multiplier, given["delta"])
        content["others"] = other_samplings(run, given["delta"], progress, noise_multiplier=multiplier)
        from hockeystick._report.results import dp_sgd_result

        guarantee = run.guarantee(multiplier)
        result = dp_sgd_result("account", guarantee, given["delta"], content, step=progress)
    write_certificate(certificate, guarantee, given["delta"])
    deliver(files, result)
    return 0


def _run(given: Given) -> DPSGD:
    if given["batch"] is None and given["sampling"] != "full":
        raise click.UsageError(f"--sampling {given['sampling']} needs --batch")
    relation = given["adjacency"] or ("replace-one" if given["sampling"] == "without-replacement" else None)
    if given["clip"] is None and relation == "replace-one":
        raise click.UsageError(
            "replace-one needs --clip: a gradient clipped to C moves the sum of a batch by 2·C if its record is "
            "replaced. Give --clip C; the noise multiplier is noise/C"
        )
    from hockeystick.accounting import DPSGD, Adjacency

    return DPSGD(
        given["records"],
        given["batch"] or given["records"],
        given["epochs"],
        clip=given["clip"],
        sampling=given["sampling"],
        user_records=given["user_records"] or 1,
        strategy=given["strategy"],
        adjacency=None if relation is None else Adjacency(relation),
    )


def _multiplier(given: Given) -> float:
    """Returns the noise multiplier, rounded down where it follows from the noise."""
    if (given["noise"] is None) == (given["noise_multiplier"] is None):
        raise click.UsageError("give one of --noise-multiplier M, and --noise S with --clip C")
    if given["noise_multiplier"] is not None:
        return float(given["noise_multiplier"])
    if given["clip"] is None:
        raise click.UsageError(
            "--noise needs --clip: it is the standard deviation of the noise on the sum of a batch. If your number is "
            "noise/clip, as in most libraries for training, give it as --noise-multiplier"
        )
    from hockeystick.accounting.numerics.directed_rounding import quotient_down

    return quotient_down(given["noise"], given["clip"])
