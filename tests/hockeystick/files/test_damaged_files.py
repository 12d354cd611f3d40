"""Tests of damaged and wrong files: every reader refuses them by its own error, which shows no record.

Of a small sound file 200 mutations are read, by seed: bytes changed, cut out, put twice, or cut off. The reader may
accept a mutation. If it refuses one, the error has to be a HockeystickError without a trace of the canary, the content
of the files.
"""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from canary import NUMBER, TEXT, traces
from private_doors import convex, online, watch

from hockeystick import learners
from hockeystick._files.named_callables import load_data
from hockeystick._files.release_table import read_columns
from hockeystick._files.symbol_tables import read_records, read_reference
from hockeystick._runs.distribution_models import numbers_file
from hockeystick._runs.lazy_streams import convex_file, experts_file, federated_file
from hockeystick.accounting import HockeystickError, InvalidArgumentError
from hockeystick.accounting.files.records import RecordFile
from hockeystick.audits.drawing import checkpoint
from hockeystick.audits.neighbours import journal as search_journal
from hockeystick.audits.outputs.reading import Codebook, Table
from hockeystick.audits.targets.array_files import UnreadableArrayError, encoded, read_archive, read_array
from hockeystick.learners.common.stream_checkpoint import seal, unseal
from hockeystick.mechanisms import SimulationNoise

MUTATIONS = 200
SOME = np.full((6, 3), NUMBER)


def mutations(content: bytes, seed: int) -> Iterator[bytes]:
    rng = np.random.default_rng(seed)
    for _ in range(MUTATIONS):
        damaged = bytearray(content)
        for _ in range(int(rng.integers(1, 4))):
            at, kind = int(rng.integers(len(damaged) + 1)), rng.integers(5)
            # Most of a file is content, and most that can go wrong is in its head and its tail.
            at = at if rng.random() < 0.5 else int(rng.integers(min(128, len(damaged) + 1)))
            length = int(rng.integers(1, 17))
            if kind == 0:
                damaged[at : at + 1] = bytes([int(rng.integers(256))])
            elif kind == 1:
                del damaged[at : at + length]
            elif kind == 2:
                damaged[at:at] = damaged[at : at + length]
            elif kind == 3:
                damaged[at:at] = rng.bytes(length)
            else:
                del damaged[at:]
        yield bytes(damaged)


def npy(values: Any) -> bytes:
    held = io.BytesIO()
    np.save(held, values)
    return held.getvalue()


def npz(**values: Any) -> bytes:
    held = io.BytesIO()
    np.savez_compressed(held, **values)
    return held.getvalue()


def parquet(**columns: Any) -> bytes:
    arrow, writer = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    held = io.BytesIO()
    writer.write_table(arrow.table(columns), held)
    return held.getvalue()


def kept(folder: Path) -> bytes:
    """The file of an audit that was interrupted."""
    path = folder / "kept.db"
    book = Codebook()
    book.code(("number", "float64"), ("f8",))
    book.closed = True
    table = Table(4, 0, {0: np.full((4, 1), NUMBER)})
    found = checkpoint.Checkpoint(path, "asked", 1)
    found.keep_tables(8, book, 1.0, True, (table, table))
    found.bounded = frozenset({1, 2}), [np.ones((2, 3), np.int64)]
    found.write()
    return path.read_bytes()


def journal(folder: Path) -> bytes:
    path = folder / "journal.db"
    path.unlink(missing_ok=True)
    begun = search_journal.Journal.at(path, "asked", 1)
    for i in range(3):
        begun.keep(search_journal.Look(pair=i, mark=i, size=10, drawn=10, score=0.5, event=TEXT))
    begun.flush()
    return path.read_bytes()


TABLE = {"symbol": ["a", "b", TEXT], "client": ["1", "918273", "918273"]}
CSV = "symbol,client\na,1\nb,918273\n" + f"{TEXT},918273\n"
REFERENCE = read_reference({"symbol": ["a", "b", TEXT]}, column="symbol")
NUMBERS = {"x": [1.0, NUMBER, 3.0]}

READERS: dict[str, tuple[str, Callable[[Path], bytes], Callable[[str], Any]]] = {
    "load_data npy": ("d.npy", lambda _: npy(SOME), lambda path: load_data("--d0", path)),
    "load_data json": ("d.json", lambda _: json.dumps({TEXT: [NUMBER, TEXT]}).encode(), lambda p: load_data("--d0", p)),
    "load_data csv": ("d.csv", lambda _: b"a,b\n1,918273\n918273,2\n", lambda path: load_data("--d0", path)),
    "experts_file": ("l.npy", lambda _: npy(SOME), lambda path: experts_file(path).losses.sum()),
    "federated_file": ("l.npy", lambda _: npy(SOME[None]), lambda path: federated_file(path).sum()),
    "convex_file": ("l.npz", lambda _: npz(gradients=SOME), lambda p: convex_file(p, lipschitz=1.0, clip=False)),
    "numbers_file": ("l.npy", lambda _: npy(SOME[0]), lambda path: numbers_file("--labels", path)),
    "read_reference csv": ("r.csv", lambda _: CSV.encode(), lambda path: read_reference(path, column="symbol")),
    "read_records csv": (
        "r.csv", lambda _: CSV.encode(), lambda p: read_records(p, REFERENCE, column="symbol", client_column="client")
    ),
    "read_records parquet": (
        "r.parquet", lambda _: parquet(**TABLE),
        lambda p: read_records(p, REFERENCE, column="symbol", client_column="client"),
    ),
    "read_columns csv": ("r.csv", lambda _: b"x\n1\n918273\n3\n", lambda path: read_columns("--table", path, ["x"])),
    "read_columns parquet": ("r.parquet", lambda _: parquet(**NUMBERS), lambda p: read_columns("--table", p, ["x"])),
    "Checkpoint.at": ("c.db", kept, lambda path: checkpoint.Checkpoint.at(path, "asked", 1)),
    "Journal.at": ("j.db", journal, lambda path: search_journal.Journal.at(path, "asked", 1)),
}  # fmt: skip


@pytest.mark.statistical
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_refused_in_words(name: str, tmp_path: Path) -> None:
    file, sound, read = READERS[name]
    path, content = tmp_path / file, sound(tmp_path)
    path.write_bytes(content)
    read(str(path))
    refused, wrong = 0, []
    for damaged in mutations(content, seed=len(name)):
        path.write_bytes(damaged)
        try:
            read(str(path))
        except HockeystickError as error:
            refused += 1
            wrong += [f"{damaged!r}: {trace}" for trace in traces(error)]
        except Exception as error:
            wrong.append(f"{damaged!r}: {type(error).__name__}: {error}")
    assert refused > MUTATIONS / 20
    assert not wrong, "\n".join(wrong[:3])


# --- what is well written and wrong ----------------------------------------------------------------------------------

ODD: tuple[Any, ...] = (None, -1, 7, 0.5, 1e300, "x", TEXT, [], {}, [[NUMBER]], True, 10**400, [None] * 3)


def spoilt(plain: Any) -> Iterator[Any]:
    """A JSON value with one of its parts replaced by something odd, or left out."""
    if isinstance(plain, dict):
        for key in plain:
            yield {other: value for other, value in plain.items() if other != key}
            yield from (plain | {key: odd} for odd in ODD)
            yield from (plain | {key: inner} for inner in spoilt(plain[key]))
    elif isinstance(plain, list) and plain:
        yield from (plain[:-1], [*plain, plain[-1]])
        yield from ([odd, *plain[1:]] for odd in ODD)
        yield from ([inner, *plain[1:]] for inner in spoilt(plain[0]))


def streams() -> dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], Any], Any]]:
    noise = SimulationNoise(1)
    experts = learners.LazyExperts(rounds=4, experts=3, learning_rate=0.1, fake_switch_probability=0.1)
    points = convex()
    server = learners.DistributionServer(online())
    watching = learners.DriftMonitor(windows=3, **watch())
    return {
        "LazyStream": (experts.start(noise=noise).checkpoint(), lambda p: experts.resume(p, noise=noise), experts),
        "ConvexStream": (points.start(noise=noise).checkpoint(), lambda p: points.resume(p, noise=noise), points),
        "DistributionServer": (
            server.checkpoint(), lambda p: learners.DistributionServer.resume(online(), p), None,
        ),
        "MonitorSession": (
            watching.start(noise=noise).checkpoint(), lambda p: watching.resume(p, noise=noise), None,
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["LazyStream", "ConvexStream", "DistributionServer", "MonitorSession"])
@pytest.mark.parametrize("forged", [False, True])
def test_spoilt_checkpoints_of_streams_are_refused(name: str, forged: bool) -> None:
    sound, resume, learner = streams()[name]
    sound = json.loads(json.dumps(sound))
    resume(sound)
    if forged and learner is None:
        pytest.skip("its checkpoints are of what is no learner")
    if forged:  # with a checksum that fits: whoever can read it can write it
        own = {
            "kind": sound["format"],
            "version": sound["version"],
            "learner": learner,
            "simulated": sound["simulated"],
        }
        bodies = spoilt(unseal(sound, **own))
        candidates: Iterator[dict[str, Any]] = (seal(body, **own) for body in bodies)
    else:
        candidates = spoilt(sound)
    tried, refused = 0, 0
    for candidate in candidates:
        if json.dumps(candidate) == json.dumps(sound):
            continue
        tried += 1
        try:
            resume(candidate)
        except HockeystickError as error:
            refused += 1
            assert not traces(error)
    assert refused == tried if not forged else refused > tried / 2


@pytest.mark.statistical
def test_a_checkpoint_of_an_audit_with_odd_parts_is_refused(tmp_path: Path) -> None:
    kept(tmp_path)
    path, refused, tried = tmp_path / "kept.db", 0, 0
    file = RecordFile(path, checkpoint.KIND, timeout=1.0)
    sound = file.read()
    for name in ("head", "progress"):
        for other in spoilt(json.loads(sound[name])):
            tried += 1
            file.replace(sound | {name: json.dumps(other).encode()})
            try:
                checkpoint.Checkpoint.at(path, "asked", 1)
            except InvalidArgumentError as error:
                refused += 1
                assert error.argument == "checkpoint"
    assert refused > tried / 2
    for name in sound.keys() - {"head", "progress"}:
        for odd in (np.array(TEXT), np.zeros((3, 3)), np.array([-1]), np.array(1j), np.array([2.5])):
            file.replace(sound | {name: encoded(odd)})
            with pytest.raises(InvalidArgumentError, match="is not a checkpoint"):
                checkpoint.Checkpoint.at(path, "asked", 1)
        file.replace({other: content for other, content in sound.items() if other != name})
        with pytest.raises(InvalidArgumentError, match="is not a checkpoint"):
            checkpoint.Checkpoint.at(path, "asked", 1)


@pytest.mark.statistical
def test_a_journal_with_odd_parts_is_refused(tmp_path: Path) -> None:
    journal(tmp_path)
    path = tmp_path / "journal.db"
    file = RecordFile(path, search_journal.KIND, timeout=1.0)
    head, first = file.read()["head"], file.read()["look 000000001"]
    refused = tried = 0
    for name, other in [*(("look 1", one) for one in (*spoilt(json.loads(first)), *ODD)), ("verdict 0", []), ("x", {})]:
        tried += 1
        file.replace({"head": head, name: json.dumps(other).encode()})
        try:
            search_journal.Journal.at(path, "asked", 1)
        except InvalidArgumentError as error:
            refused += 1
            assert error.argument == "checkpoint" and not traces(error)
    assert refused > tried / 2
    for other in (other for other in [*spoilt(json.loads(head)), *ODD] if json.dumps(other) != head.decode()):
        file.replace({"head": json.dumps(other).encode()})
        with pytest.raises(InvalidArgumentError):
            search_journal.Journal.at(path, "asked", 1)


# --- sizes -----------------------------------------------------------------------------------------------------------


def header(shape: tuple[int, ...], dtype: str = "<f8") -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize("shape", [(10**12,), (10**6, 10**6), (2**62, 4), (-1, -8), (3,)])
def test_nothing_is_allocated_on_the_word_of_a_header(shape: tuple[int, ...], tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(header(shape) + b"\0" * 16)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", header(shape) + b"\0" * 16)
    tracemalloc.start()
    with pytest.raises(UnreadableArrayError, match="ends before"):
        read_array(tmp_path / "a.npy")
    with pytest.raises(UnreadableArrayError, match="ends before"):
        read_archive(tmp_path / "a.npz")
    with pytest.raises(InvalidArgumentError, match="ends before"):
        experts_file(str(tmp_path / "a.npy"))
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.statistical
def test_an_archive_may_not_hold_a_thousand_times_its_size(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("gradients.npy", header((1 << 20, 4)) + bytes(1 << 25))
    tracemalloc.start()
    with pytest.raises(InvalidArgumentError, match="200 times"):
        convex_file(str(tmp_path / "a.npz"), lipschitz=1.0, clip=False)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_archives_of_repetitive_arrays_are_read(tmp_path: Path) -> None:
    rows = np.zeros((1000, 3))
    rows[:, 0] = 0.5
    (tmp_path / "a.npz").write_bytes(npz(gradients=rows, other=np.arange(3)))
    assert set(read_archive(tmp_path / "a.npz")) == {"gradients", "other"}
    np.testing.assert_array_equal(read_archive(tmp_path / "a.npz", "gradients")["gradients"], rows)


@pytest.mark.parametrize("dtype", ["O", [("x", "O"), ("y", "f8")]])
def test_python_objects_are_not_loaded(dtype: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.empty(2, dtype), allow_pickle=True)
    with pytest.raises(UnreadableArrayError, match="Python objects"):
        read_array(tmp_path / "a.npy")
