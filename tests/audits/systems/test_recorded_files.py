"""Recorded outputs in files: every format gives the same outputs; what is no output is refused and not shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import audit, read_recorded

SURE = 1 - 1e-6


def recorded(folder: Path, suffix: str, text0: str | bytes, text1: str | bytes) -> Any:
    for name, text in ("d0", text0), ("d1", text1):
        (folder / f"{name}{suffix}").write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_recorded(folder / f"d0{suffix}", folder / f"d1{suffix}")


def written(folder: Path, suffix: str, *sides: np.ndarray) -> Any:
    """Writes two arrays of numbers in a format, and reads them."""
    for name, side in zip(("d0", "d1"), sides, strict=True):
        file = folder / f"{name}{suffix}"
        if suffix == ".npy":
            np.save(file, side)
        elif suffix == ".parquet":
            arrow = pytest.importorskip("pyarrow")
            pytest.importorskip("pyarrow.parquet").write_table(arrow.table({"x": side}), file)
        else:
            file.write_text("\n".join(map(repr, side.tolist())) + "\n")
    return read_recorded(folder / f"d0{suffix}", folder / f"d1{suffix}")


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".ndjson", ".npy", ".parquet"])
@pytest.mark.parametrize("kind", ["real", "whole"])
def test_each_format_keeps_every_number(suffix: str, kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    sides = [rng.normal(size=50) if kind == "real" else rng.integers(-9, 9, size=50) for _ in range(2)]

    found = written(tmp_path, suffix, *sides)

    assert [np.asarray(side).tolist() for side in (found.outputs0, found.outputs1)] == [side.tolist() for side in sides]


@pytest.mark.statistical
@pytest.mark.parametrize("suffix", [".csv", ".npy"])
def test_files_are_audited_as_their_outputs_are(suffix: str, tmp_path: Path) -> None:
    """Laplace noise of scale 1 and 1/2 at ε = 1; the first is refuted by chance with probability 1e-6.

    P(output <= 0) is 1/2 and e^-2/2 = 0.068 with half the noise: 20 standard errors from what ε = 1 allows.
    """
    rng = np.random.default_rng(2)
    sides = {scale: [value + rng.laplace(scale=scale, size=4000) for value in (0.0, 1.0)] for scale in (1.0, 0.5)}

    fine, wrong = (
        audit(written(tmp_path, suffix, *sides[scale]), claim=(1.0, 0.0), rng=1, confidence=SURE) for scale in sides
    )

    assert not fine.refuted and wrong.refuted and fine.samples == 4000


def test_a_csv_file_of_several_columns_has_named_parts(tmp_path: Path) -> None:
    found = recorded(tmp_path, ".csv", "n,word\n1,yes\n2,\n1,no\n", "n,word\n2,no\n2.5,yes\n")

    assert found.outputs0.dtype.names == ("n", "word")
    assert found.outputs0["n"].tolist() == [1.0, 2.0, 1.0] and found.outputs1["n"].dtype == np.float64
    assert found.outputs0["word"].tolist() == ["yes", None, "no"]


def test_a_word_on_one_side_alone_stays_an_output(tmp_path: Path) -> None:
    """It is the leak: in a column of numbers elsewhere, it must neither be refused nor make texts of the numbers."""
    found = recorded(tmp_path, ".csv", "3.5\n1e2\n" * 20, "3.5\nfailed\n" * 20)

    assert found.outputs0[:2] == [3.5, 100.0] and found.outputs1[:2] == [3.5, "failed"]
    assert audit(found, claim=(1.0, 0.0), rng=1, confidence=0.6).samples == 40


@pytest.mark.statistical
def test_a_leak_in_a_named_part_is_refuted_and_named(tmp_path: Path) -> None:
    """The part "ill" tells the data set: ε is infinite, and every audit of so many outputs sees it."""
    rng = np.random.default_rng(3)
    texts = ["noise,ill\n" + "".join(f"{rng.normal()},{side}\n" for _ in range(500)) for side in (0, 1)]

    verdict = audit(recorded(tmp_path, ".csv", *texts), claim=(1.0, 0.0), rng=1)

    assert verdict.refuted and "ill" in verdict.event


def test_lines_of_json_may_be_anything(tmp_path: Path) -> None:
    values: list[list[Any]] = [[{"a": 1, "b": "x"}, [1, 2.5], None, "text"], [True, {"b": "y", "a": 2}]]
    found = recorded(tmp_path, ".jsonl", *("\n".join(json.dumps(value) for value in side) for side in values))

    assert [found.outputs0, found.outputs1] == values


def test_whole_floats_in_json_are_floats(tmp_path: Path) -> None:
    found = recorded(tmp_path, ".jsonl", "1\n2.5\n", "3\n3\n")

    assert found.outputs1.dtype == np.float64


def test_a_table_of_arrow_keeps_texts_and_missing_values(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for name in ("d0", "d1"):
        parquet.write_table(arrow.table({"x": [1.0, 3.0, None], "s": ["a", None, "b"]}), tmp_path / f"{name}.parquet")

    found: Any = read_recorded(tmp_path / "d0.parquet", tmp_path / "d1.parquet")

    assert found.outputs0["x"].tolist() == [1.0, 3.0, None] and found.outputs0["s"].tolist() == ["a", None, "b"]


DIFFERENT = {
    "names": (".csv", "a,b\n1,2\n", "a,c\n1,2\n", "another name for column 2"),
    "columns": (".csv", "a,b\n1,2\n", "a\n1\n", "has 1 columns, and file0 2"),
    "a header": (".csv", "a\n1\n", "1\n2\n", "another name"),
}
BAD = {
    "ragged": (".csv", "1,2\n3\n", "line 2 has another number of cells"),
    "two names": (".csv", "a,a\n1,2\n", "a column without a name of its own"),
    "quotes": (".csv", 'secret"x"\n"', "not valid CSV"),
    "empty": (".csv", "", "is empty"),
    "header only": (".csv", "a,b\n", "holds no output"),
    "binary": (".csv", b"\xff\xfe", "not UTF-8"),
    "json": (".jsonl", "1\nsecret\n", "line 2 is not JSON"),
    "npy": (".npy", b"\x93NUMPYsecret", "not a file of outputs"),
    "parquet": (".parquet", b"PAR1secretPAR1", "damaged Parquet"),
    "sorted": (".csv", "\n".join(map(str, range(20))), "is sorted"),
    "unknown": (".xlsx", "", "unknown format"),
}


@pytest.mark.parametrize(("suffix", "text0", "text1", "said"), DIFFERENT.values(), ids=DIFFERENT)
def test_files_that_differ_by_more_than_outputs_are_refused(suffix, text0, text1, said, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=said) as caught:
        recorded(tmp_path, suffix, text0, text1)
    assert caught.value.argument == "file1"


@pytest.mark.parametrize(("suffix", "text", "said"), BAD.values(), ids=BAD)
def test_a_bad_file_is_named_and_not_shown(suffix, text, said, tmp_path: Path) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    with pytest.raises(InvalidArgumentError, match=said) as caught:
        recorded(tmp_path, suffix, text, text)
    assert caught.value.argument == "file0" and "secret" not in str(caught.value)
    assert caught.value.__context__ is None and caught.value.__cause__ is None


def test_a_missing_file_a_folder_and_the_same_file_twice_are_refused(tmp_path: Path) -> None:
    (tmp_path / "d0.csv").write_text("1\n")
    (tmp_path / "f.csv").mkdir()
    for other, said in ("none.csv", "no such file"), ("f.csv", "can't be read"), ("d0.csv", "same file"):
        with pytest.raises(InvalidArgumentError, match=said):
            read_recorded(tmp_path / "d0.csv", tmp_path / other)
    np.save(tmp_path / "d1.npy", np.zeros(3))
    with pytest.raises(InvalidArgumentError, match=r"another format than \.csv"):
        read_recorded(tmp_path / "d0.csv", tmp_path / "d1.npy")
