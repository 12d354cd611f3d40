"""``hockeystick survey``: a server that asks and counts, and clients that answer with private messages."""

from __future__ import annotations

from typing import Any

import click

from hockeystick._cli.frame.destinations import output_file, result_files, write
from hockeystick._cli.frame.ending import conclude, working
from hockeystick._cli.frame.option_types import Count, FileName, Numbers, private_file, read_text
from hockeystick._cli.frame.shared_options import (
    POSITIVE,
    SHARE,
    Given,
    flag,
    ledger_option,
    option,
    output_options,
    refuse,
    seed_option,
)
from hockeystick._cli.frame.streams import warn

_QUESTIONS = ("categories", "quantiles", "mean", "words")


@click.group("survey")
def survey_command() -> None:
    """Ask many clients a question, and learn only noisy totals.

    The server asks (survey ask), each client answers with one message (survey answer), and the server counts (survey
    count). Messages travel in files, by any means. Surveys in the aggregated model need a connection: see the
    page on federated analytics.

    \b
    Examples:
      hockeystick survey ask --categories red,blue --epsilon 1 --clients 10000 --round R.json
      hockeystick survey answer --round R.json --number 17 --value red --most-epsilon 1 --message 17.bin
      hockeystick survey count --round R.json --messages all.bin --json result.json
    """


@survey_command.command("ask")
@option("--categories NAMES", click.STRING, "Ask for one of these, with commas between them.")
@option("--quantiles LOW:HIGH:CELLS", click.STRING, "Ask for quantiles of a number in a public range.")
@option("--mean LOW:HIGH", click.STRING, "Ask for the mean of a number in a public range.")
@option("--words ALPHABET:LENGTH", click.STRING, "Ask for the most frequent words, of at most so many symbols.")
@option("--levels Q,Q", Numbers(0.0, 1.0), "With --quantiles: which. Default: 0.25,0.5,0.75.")
@option("--share S", SHARE, "With --words: the share of clients from which on words are looked for. Default: 0.01.")
@option("--stride N", Count(1), "With --words: the number of symbols that a round adds. Default: 1.")
@option("--model NAME", click.Choice(("local", "trusted")), "Who is trusted: nobody, or the server.", default="local")
@option("--epsilon E", POSITIVE, "The ε of each client.", required=True)
@option("--clients N", Count(1), "The number of clients; give them the numbers 0 to N - 1 at random.", required=True)
@option("--round FILE", FileName("output"), "Write the first round, which is public, for the clients.", required=True)
@output_options()
def ask(**given: Any) -> int:
    """Plan a survey, and write its first round.

    \b
    Examples:
      hockeystick survey ask --quantiles 0:120:64 --model trusted --epsilon 1 --clients 500 --round R.json
      hockeystick survey ask --words abcdefghijklmnopqrstuvwxyz:8 --stride 2 --epsilon 4 --clients 1e6 --round R.json

    Exit status: 0, or 2 if the command could not run.
    """
    if sum(given[name] is not None for name in _QUESTIONS) != 1:
        raise click.UsageError("give one of --categories, --quantiles, --mean, --words")
    if given["quantiles"] is None:
        refuse(given, "needs --quantiles", "levels")
    if given["words"] is None:
        refuse(given, "needs --words", "share", "stride")
    files = result_files(given)
    path = output_file("--round", given["round"], *files.paths.values())
    from hockeystick._runs.surveys import plan_content, question_of
    from hockeystick.learners.analytics.survey import Survey

    with working() as progress:
        progress("calibrating")
        survey = Survey(
            question=question_of(given), model=given["model"], epsilon=given["epsilon"], clients=given["clients"]
        )
        content = plan_content(survey.first())
    write(path, survey.first().to_json())
    conclude(given, content, files, command="survey")
    return 0


@survey_command.command("answer")
@option("--round FILE", FileName(), "The round that the server has published.", required=True)
@option("--number I", Count(0), "The client's number.")
@option("--value V", click.STRING, "The client's value; it is not sent, unless the server is trusted.")
@option("--values FILE", FileName(), "A value of each client, a line each from number 0 on, for trials and gateways.")
@option("--most-epsilon E", POSITIVE, "The largest ε that the client accepts.", required=True)
@option("--message FILE", FileName("output"), "Write the message, or all messages.", required=True)
@flag("--simulate", "Use simulated noise, for a trial.")
@seed_option("--simulate")
@ledger_option("")
def answer(**given: Any) -> int:
    """Write a client's message for a round.

    Answer a survey once: a second message with fresh noise costs ε again. In a survey for words each client answers the
    round that asks it. A ledger of the client's own records the cost.

    \b
    Examples:
      hockeystick survey answer --round R.json --number 17 --value red --most-epsilon 1 --message 17.bin
      hockeystick survey answer --round R.json --values V.txt --simulate --most-epsilon 1 --message all.bin

    Exit status: 0, or 2 if the command could not run.
    """
    if (given["value"] is None) == (given["values"] is None) or (given["value"] is None) != (given["number"] is None):
        raise click.UsageError("give --number and --value, or --values")
    if not given["simulate"]:
        refuse(given, "needs --simulate: reproducible noise can be subtracted again", "seed")
    if given["values"] is not None:
        refuse(given, "is for one client: give --number and --value", "ledger")
    path = output_file("--message", given["message"])
    from hockeystick._runs.ledgers import opened
    from hockeystick._runs.surveys import messages_of, noise_of, read_round
    from hockeystick.learners.analytics.survey_client import answer_round

    asked = read_round(read_text("--round", given["round"], "write one by 'hockeystick survey ask'"), given["round"])
    noise = noise_of((given["seed"] or 0) if given["simulate"] else None)
    with working(), private_file("--values", given["values"]):
        if given["values"] is None:
            ledger = opened(given["ledger"], asked.survey.adjacency)
            value: Any = given["value"]
            message = answer_round(
                asked, given["number"], value, most_epsilon=given["most_epsilon"], noise=noise, ledger=ledger
            )
        else:
            lines = read_text("--values", given["values"], "write one value a line").splitlines()
            pairs = list(enumerate(lines))[: asked.survey.clients]
            message = messages_of(asked, pairs, most_epsilon=given["most_epsilon"], noise=noise)
    write(path, message)
    return 0


@survey_command.command("count")
@option("--round FILE", FileName(), "The round that the messages answer.", required=True)
@option(
    "--messages FILE", FileName(), "Messages, one after the other; several files too.", required=True, multiple=True
)
@option("--next FILE", FileName("output"), "For words: write the next round.")
@flag("--simulated", "The clients' noise is simulated: the result is a trial.")
@seed_option("the server's noise in a trial")
@ledger_option("With a trusted server: ")
@output_options()
def count(**given: Any) -> int:
    """Count the messages of a round, and show the answers with an interval beside each.

    A message that is malformed, of another round, or of a client that has answered is not counted, and listed by
    reason. A survey for words has several rounds: --next takes the next one, for the clients that it asks.

    \b
    Examples:
      hockeystick survey count --round R.json --messages all.bin --json result.json
      hockeystick survey count --round R.json --messages a.bin --messages b.bin --next R2.json

    Exit status: 0, or 2 if the command could not run.
    """
    if not given["simulated"]:
        refuse(given, "needs --simulated: reproducible noise can be subtracted again", "seed")
    files = result_files(given)
    following = None if given["next"] is None else output_file("--next", given["next"], *files.paths.values())
    from hockeystick._runs.ledgers import opened
    from hockeystick._runs.surveys import noise_of, plan_content, read_messages, read_round, result_content
    from hockeystick.learners.analytics.results import SurveyResult
    from hockeystick.learners.analytics.survey_server import SurveyServer

    asked = read_round(read_text("--round", given["round"], "write one by 'hockeystick survey ask'"), given["round"])
    trusted = asked.survey.model == "trusted"
    if not trusted:
        refuse(given, "is the client's own in the local model: see 'survey answer'", "ledger")
    seed = (given["seed"] or 0) if given["simulated"] else None
    with working() as progress:
        progress("counting messages")
        server = SurveyServer(asked, simulated=given["simulated"])
        for file in given["messages"]:
            server.receive_all(read_messages(file))
        ledger = opened(given["ledger"], asked.survey.adjacency)
        found = server.close(noise=noise_of(seed) if trusted else None, ledger=ledger)
    if isinstance(found, SurveyResult):
        content = result_content(asked, found, seed=seed, messages=", ".join(given["messages"]))
    else:
        if following is None:
            raise click.UsageError(f"round {found.number} follows: give --next")
        write(following, found.to_json())
        content = plan_content(found)
    conclude(given, content, files, command="survey")
    _warn_unused(given, isinstance(found, SurveyResult))
    return 0


def _warn_unused(given: Given, ended: bool) -> None:
    if ended and given["next"] is not None:
        warn("there is no next round: --next was not written")
