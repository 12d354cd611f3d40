"""The formats that :mod:`benchmarks.mutated_files` damages: a sound file, its reader, and another reading of it.

``compare(content, value)`` returns True if the value holds what the content states by another reading, False if it
holds less, and None where there is nothing to compare.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from attrs import frozen

import hockeystick as hs
from hockeystick import learners
from hockeystick._cli.commands.catalogue import _COMMAND, _SCHEMA
from hockeystick._cli.commands.catalogue import _read as read_catalogue_run
from hockeystick._files.named_callables import load_data
from hockeystick._files.release_table import read_columns
from hockeystick._files.symbol_tables import read_records, read_reference
from hockeystick._pytest.lock_file import Budget, LockFile
from hockeystick._report.result_reader import read_results
from hockeystick._runs.calibration import Template
from hockeystick._runs.distribution_models import numbers_file
from hockeystick._runs.lazy_streams import convex_file, experts_file
from hockeystick.accounting import (
    ZCDP,
    AccountantGraph,
    Adjacency,
    DurableLedger,
    Guarantee,
    HockeystickError,
    Laplace,
    PureDP,
    ZCDPFilter,
)
from hockeystick.accounting.budgets.durable_ledger import filter_to_json
from hockeystick.accounting.budgets.stores.text_file import read_text_ledger
from hockeystick.accounting.events.event_json import event_to_json
from hockeystick.accounting.files.reading import read_text
from hockeystick.audits import Claim, EvidenceLedger, Verdict, sequential_audit
from hockeystick.audits.claims.claim_texts import read_claim
from hockeystick.audits.drawing.checkpoint import Checkpoint
from hockeystick.audits.neighbours.journal import Journal, Look
from hockeystick.audits.outputs.reading import Codebook, Table
from hockeystick.audits.sequential.verdict import SequentialVerdict
from hockeystick.audits.systems.recorded_files import read_recorded
from hockeystick.audits.targets.json_values import decode_json
from hockeystick.audits.verdicts.common import versions
from hockeystick.mechanisms import SimulationNoise

ROWS = np.arange(18.0).reshape(6, 3) / 17.0


@frozen
class Format:
    """A format of files.

    Attributes:
      suffix: of the file's name.
      make: returns the content of a sound file; the folder is for whatever it needs.
      read: reads a file, as the product does.
      compare: see the module.
    """

    suffix: str
    make: Callable[[Path], bytes]
    read: Callable[[Path], Any]
    compare: Callable[[bytes, Any], bool | None]


def nothing(content: bytes, value: Any) -> None:
    """There is nothing to compare with."""


# --- JSON ------------------------------------------------------------------------------------------------------------


def graph() -> AccountantGraph:
    """Three pure releases, of which one reads a transform: ε = 3/2 + 1/2 + 2/8."""
    found = AccountantGraph(adjacency=Adjacency.ADD_OR_REMOVE_ONE).source("people")
    found = found.release("a", Laplace(2.0), reads=["people"], count=3).release("b", PureDP(0.5), reads=["people"])
    found = found.transform("twice", reads=["people"], stability={("records", "l1"): 2.0})
    return found.release("c", Laplace(8.0), reads=["twice"])


def plain(content: bytes) -> Any:
    """The value of a JSON text as Python's parser has it."""
    return json.loads(content.decode("utf-8-sig"))


def pure(event: Any, distance: float = 1.0) -> float:
    """The pure ε of an event in JSON."""
    if event["type"] == "Composed":
        return math.fsum(count * pure(part, distance) for part, count in event["parts"])
    return distance * float(event["epsilon"] if event["type"] == "PureDP" else 1.0 / event["noise_multiplier"])


def graph_states(content: bytes, value: AccountantGraph) -> bool | None:
    try:
        nodes = {node["name"]: node for node in plain(content)["nodes"]}

        def distance(name: str) -> float:
            node = nodes[name]
            if node["kind"] == "source":
                return 1.0
            factor = 1.0 if node["kind"] != "transform" else max(row[2] for row in node["stability"])
            return factor * sum(map(distance, node["reads"])) if node["kind"] in ("transform", "post") else 0.0

        stated = math.fsum(
            node.get("count", 1) * pure(node["event"], sum(map(distance, node["reads"])))
            for node in nodes.values()
            if node["kind"] == "release"
        )
        if [node["kind"] for node in nodes.values()].count("source") > 1 or plain(content)["pinned"]:
            return None
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return None
    try:
        return value.guarantee().epsilon(0.0).upper >= stated * (1 - 1e-12)
    except HockeystickError:  # a graph that can be written, and not certified
        return None


def guarantee_states(content: bytes, value: Guarantee) -> bool | None:
    try:
        stated = max(math.fsum(c["count"] * pure(c["event"]) for c in m["charges"]) for m in plain(content)["moves"])
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return None
    return value.epsilon(0.0).upper >= stated * (1 - 1e-12)


def same(found: Any, stated: Any) -> bool:
    """Whether two JSON values are equal; a whole number above 2^53 is read as the nearest float."""
    if isinstance(found, dict) and isinstance(stated, dict):
        return found.keys() == stated.keys() and all(same(found[name], stated[name]) for name in found)
    if isinstance(found, list) and isinstance(stated, list):
        return len(found) == len(stated) and all(map(same, found, stated))
    if isinstance(found, float) and type(stated) is int:
        return found == float(stated)
    return bool(found == stated)


def verdict_states(content: bytes, value: Any) -> bool:
    """Every field that the text has is the verdict's."""
    found, given = json.loads(value.to_json()), plain(content)
    return all(same(found[name], stated) for name, stated in given.items() if name in found)


def lock_states(content: bytes, value: LockFile) -> bool:
    given = plain(content)
    found = {name: budget.to_dict() for name, budget in value.budgets.items()}
    return same(found, given["budgets"]) and bool(value.registered >= given["audits_registered"])


def value_states(content: bytes, value: Any) -> bool:
    return bool(value == plain(content))


def results_state(content: bytes, value: Any) -> bool:
    given = plain(content)
    return bool(list(value) == given.get("results", [given]))


def template_states(content: bytes, value: Template) -> bool:
    return bool(value.data == plain(content))


def template(_: Path) -> bytes:
    return graph().to_json().replace('"noise_multiplier": 2.0', '"noise_multiplier": "?"').encode()


def lock(_: Path) -> bytes:
    epsilons = ((0.0, 1.5, "pure"), (1e-6, 1.25, "pld"))
    budget = Budget(epsilons, "add-or-remove-one", "one record", 1, "all", ("none",), None, "0.1")
    return LockFile({"mean": budget}, {"t": 1}, 1).text().encode()


def verdict(_: Path) -> bytes:
    laplace = hs.mechanisms.Laplace(0.5)
    return hs.audit(laplace, claim=(1.0, 0.0), neighbours=(0.0, 1.0), samples=500, rng=1).to_json().encode()


def above(outputs: Any) -> Any:
    """An event to bet on."""
    return outputs >= 1.0


def laplace(value: float, rng: np.random.Generator, runs: int) -> Any:
    """A target."""
    return value + rng.laplace(size=runs)


def sequential(_: Path) -> bytes:
    found = sequential_audit(
        laplace, claim=Claim(1.0), neighbours=(0.0, 1.0), most_samples=100, alpha=0.01, events=above, rng=1
    )
    return found.to_json().encode()


def result(_: Path) -> bytes:
    from click.testing import CliRunner

    from hockeystick._cli.program import cli

    with CliRunner().isolated_filesystem():
        Path("g.json").write_text(graph().to_json(), encoding="utf-8")
        done = CliRunner().invoke(cli, ["account", "g.json", "--delta", "0", "--json", "-"])
    return done.stdout.encode()


def catalogue_run(_: Path) -> bytes:
    found = {
        "command": _COMMAND, "schema_version": _SCHEMA, "cases": ["laplace"], "samples": 100, "seconds": None,
        "confidence": 0.999, "seed": 1, "results": [], "versions": versions(),
    }  # fmt: skip
    return json.dumps(found).encode()


def stream(_: Path) -> bytes:
    return json.dumps(experts().start(noise=SimulationNoise(1)).checkpoint()).encode()


def experts() -> Any:
    return learners.LazyExperts(rounds=4, experts=3, learning_rate=0.1, fake_switch_probability=0.1)


def resumed(path: Path) -> Any:
    return experts().resume(decode_json(read_text(path)), noise=SimulationNoise(1))


def stream_states(content: bytes, value: Any) -> bool:
    return bool(value.checkpoint() == plain(content))


# --- arrays and tables -----------------------------------------------------------------------------------------------


def npy(values: Any) -> bytes:
    held = io.BytesIO()
    np.save(held, values)
    return held.getvalue()


def npz(**values: Any) -> bytes:
    held = io.BytesIO()
    np.savez_compressed(held, **values)
    return held.getvalue()


def parquet(**columns: Any) -> bytes:
    import pyarrow
    from pyarrow import parquet as writer

    held = io.BytesIO()
    writer.write_table(pyarrow.table(columns), held)
    return held.getvalue()


def recorded(path: Path) -> Any:
    return read_recorded(path, path.with_name(f"other{path.suffix}"))


def beside(suffix: str, content: bytes) -> Callable[[Path], bytes]:
    """Writes the file of the other data set, too."""

    def make(folder: Path) -> bytes:
        (folder / f"other{suffix}").write_bytes(content)
        return content

    return make


TABLE = {"symbol": ["a", "b", "c"] * 4, "client": [str(i // 2) for i in range(12)]}
CSV = "symbol,client\n" + "".join(f"{a},{b}\n" for a, b in zip(*TABLE.values(), strict=True))
REFERENCE = read_reference({"symbol": ["a", "b", "c"]}, column="symbol")
OUTPUTS = b"x,y,word\n" + b"".join(b"%d,%d.5,w%d\n" % (i, i, i % 3) for i in range(12))


def records(path: Path) -> Any:
    return read_records(str(path), REFERENCE, column="symbol", client_column="client")


# --- ledgers, evidence, checkpoints ----------------------------------------------------------------------------------


def ledger(folder: Path) -> bytes:
    found = DurableLedger.create(folder / "sound.db", ZCDPFilter(1.0), who="me")
    for note in ("one", "two", "three"):
        found.reserve(ZCDP(0.125), note=note)
    return (folder / "sound.db").read_bytes()


def text_ledger(_: Path) -> bytes:
    lines, digest = b"", ""
    bodies: list[dict[str, Any]] = [{"schema_version": 1, "filter": filter_to_json(ZCDPFilter(1.0))}]
    charge = {"event": event_to_json(ZCDP(0.125)), "count": 1, "note": "x"}
    for body in [*bodies, *({"number": number, **charge} for number in (1, 2, 3))]:
        digest = hashlib.sha256((digest + json.dumps(body)).encode()).hexdigest()
        lines += json.dumps({"digest": digest, **body}).encode() + b"\n"
    return lines


def text_ledger_states(content: bytes, value: Any) -> bool:
    """Whole lines at the end may be cut off unnoticed; all that are there count."""
    return len(value[1]) >= len([line for line in content.split(b"\n") if line.endswith(b"}")]) - 1


KEYS: list[Any] = []


def evidence(folder: Path) -> bytes:
    found = EvidenceLedger(folder / "sound.db")
    for seed in range(3):
        found.audit("n", laplace, claim=Claim(1.0), neighbours=(0.0, 1.0), samples=40, events=above, rng=seed)
    KEYS[:] = found.evidence()
    return (folder / "sound.db").read_bytes()


def old_evidence(folder: Path) -> bytes:
    evidence(folder)
    body = {"alpha": 1e-6, "evidence": [attrs.asdict(own) for own in KEYS]}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return json.dumps({"kind": "hockeystick evidence", "schema": 1, "digest": digest, "body": body}).encode()


def imported(path: Path) -> Any:
    return EvidenceLedger.import_text(path, path.with_name("mutated new.db")).evidence()


def same_keys(content: bytes, value: Any) -> bool:
    return list(value) == KEYS


def checkpoint(folder: Path) -> bytes:
    path = folder / "sound.db"
    book = Codebook()
    book.code(("number", "float64"), ("f8",))
    book.closed = True
    table = Table(6, 0, {0: ROWS[:, :1].copy()})
    found = Checkpoint(path, "asked", 1)
    found.keep_tables(8, book, 1.0, True, (table, table))
    found.bounded = frozenset({1, 2}), [np.ones((2, 3), np.int64)]
    found.write()
    return path.read_bytes()


def checkpoint_states(content: bytes, value: Checkpoint) -> bool:
    """A file of no bytes is a new one."""
    if not content:
        return value.tables is None
    numbers, (counts,) = value.bounded
    right = value.tables is not None and all((t.blocks[0] == ROWS[:, :1]).all() for t in value.tables)
    return bool(right and numbers == {1, 2} and (counts == 1).all() and counts.shape == (2, 3) and value.total == 8)


def journal(folder: Path) -> bytes:
    path = folder / "sound.db"
    begun = Journal.at(path, "asked", 1)
    for i in range(3):
        begun.keep(Look(pair=i, mark=i, size=10, drawn=10, score=0.5, event="x"))
    begun.keep_verdict(0, Verdict.from_json(verdict(folder).decode()))
    return path.read_bytes()


def journal_states(content: bytes, value: Journal) -> bool:
    return not content or ([look.pair for look in value.left] == [0, 1, 2] and value.verdicts[0].samples == 500)


def text(read: Callable[[str], Any]) -> Callable[[Path], Any]:
    """A reader of texts, of the file's text as the command line gives it."""
    return lambda path: read(read_text(path))


FORMATS: dict[str, Format] = {
    "graph": Format(".json", lambda _: graph().to_json().encode(), text(AccountantGraph.from_json), graph_states),
    "guarantee": Format(
        ".json", lambda _: graph().guarantee().to_json().encode(), text(Guarantee.from_json), guarantee_states
    ),
    "claim": Format(
        ".json",
        lambda _: b'{"epsilons": [0.0, 1.0, 2.5], "deltas": [0.25, 0.01, 0.0]}',
        lambda path: read_claim(str(path)),
        nothing,
    ),
    "template": Format(".json", template, text(Template.read), template_states),
    "verdict": Format(".json", verdict, text(Verdict.from_json), verdict_states),
    "sequential verdict": Format(".json", sequential, text(SequentialVerdict.from_json), verdict_states),
    "lock file": Format(".json", lock, LockFile.read, lock_states),
    "result": Format(".json", result, text(lambda found: read_results("r.json", found)), results_state),
    "catalogue run": Format(".json", catalogue_run, lambda path: read_catalogue_run(str(path)), nothing),
    "stream checkpoint": Format(".json", stream, resumed, stream_states),
    "data json": Format(
        ".json", lambda _: b'{"a": [1, 2.5, null], "b": {"c": "x"}}', lambda p: load_data("--d0", str(p)), nothing
    ),
    "data csv": Format(".csv", lambda _: b"a,b\n1,2.5\n3,1e5\n", lambda p: load_data("--d0", str(p)), nothing),
    "data npy": Format(".npy", lambda _: npy(ROWS), lambda p: load_data("--d0", str(p)), nothing),
    "losses npy": Format(".npy", lambda _: npy(ROWS), lambda p: experts_file(str(p)).losses.sum(), nothing),
    "gradients npz": Format(
        ".npz", lambda _: npz(gradients=ROWS), lambda p: convex_file(str(p), lipschitz=2.0, clip=True), nothing
    ),
    "labels npy": Format(".npy", lambda _: npy(np.arange(9)), lambda p: numbers_file("--labels", str(p)), nothing),
    "outputs csv": Format(".csv", beside(".csv", OUTPUTS), recorded, nothing),
    "outputs jsonl": Format(".jsonl", beside(".jsonl", b'1\n2.5\n"x"\n[1, 2]\n' * 3), recorded, nothing),
    "outputs npy": Format(".npy", beside(".npy", npy(ROWS)), recorded, nothing),
    "outputs parquet": Format(
        ".parquet", lambda folder: beside(".parquet", parquet(**TABLE))(folder), recorded, nothing
    ),
    "records csv": Format(".csv", lambda _: CSV.encode(), records, nothing),
    "records parquet": Format(".parquet", lambda _: parquet(**TABLE), records, nothing),
    "column csv": Format(".csv", lambda _: b"x\n1\n2\n3\n", lambda p: read_columns("--table", str(p), ["x"]), nothing),
    "ledger": Format(
        ".db", ledger, lambda p: DurableLedger.open(p, timeout=0.0).verify(), lambda _, found: found.number == 3
    ),
    "text ledger": Format(".jsonl", text_ledger, read_text_ledger, text_ledger_states),
    "evidence": Format(".db", evidence, lambda p: EvidenceLedger(p, timeout=0.0).evidence(), same_keys),
    "evidence json": Format(".json", old_evidence, imported, same_keys),
    "checkpoint": Format(".db", checkpoint, lambda p: Checkpoint.at(p, "asked", 1), checkpoint_states),
    "journal": Format(".db", journal, lambda p: Journal.at(p, "asked", 1), journal_states),
}
