"""Tests of checked reading: one typed error for whatever a file may hold, and no memory on its word."""

from __future__ import annotations

import os
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.files.parquet_files import opened_parquet
from hockeystick.accounting.files.reading import (
    DEEPEST,
    UnreadableFileError,
    json_value,
    opened_text,
    read_bytes,
    read_text,
)


def reason(read: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(UnreadableFileError) as refused:
        read(*arguments, **options)
    return str(refused.value)


def test_files_are_read_within_a_size(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"\xef\xbb\xbf" + "größe".encode())
    assert read_text(path) == "größe"
    assert read_bytes(path, most=path.stat().st_size) == path.read_bytes()
    assert "larger than 0 MiB" in reason(read_bytes, path, most=3)


def test_a_sparse_file_of_any_size_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    path.touch()
    os.truncate(path, 1 << 40)
    tracemalloc.start()
    assert "larger than 1024 MiB" in reason(read_text, path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_without_an_end_is_read_to_the_limit(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def pour() -> None:
        with pytest.raises(BrokenPipeError), pipe.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))

    pouring = threading.Thread(target=pour)
    pouring.start()
    assert "larger" in reason(read_bytes, pipe, most=1 << 20)
    pouring.join()


def test_unreadable_files_are_refused_by_reason(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"gr\xf6\xdfe")
    assert reason(read_text, tmp_path / "none") == "there is no such file"
    assert reason(read_text, "a\0b") == "is not the name of a file"
    assert reason(read_text, tmp_path).startswith("can't be read (")
    assert reason(read_text, "x" * 5000).startswith("can't be read (")
    assert reason(read_text, tmp_path / "latin") == "is not UTF-8 text (invalid start byte at byte 2)"

    def piece() -> None:
        with opened_text(tmp_path / "latin") as file:
            file.read()

    assert reason(piece).startswith("is not UTF-8")
    with pytest.raises(UnreadableFileError) as missing:
        read_text(tmp_path / "none")
    assert missing.value.missing
    error = missing.value.about("--file", tmp_path / "none", "give one")
    assert isinstance(error, InvalidArgumentError) and "no such file; give one" in str(error)


def test_an_error_of_the_reader_s_own_block_is_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x")
    with pytest.raises(ValueError, match="mine"), opened_text(tmp_path / "text"):
        raise ValueError("mine")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1,", "line 1, column 4"),
        ("[" * 100_000, "nested"),
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), f"nested more than {DEEPEST} deep"),
        ('{"a":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1), f"nested more than {DEEPEST} deep"),
        ("1" * 5000, "too many digits"),
        ("1e999", "does not fit in a float"),
        ("-1e999", "does not fit in a float"),
        ("NaN", "NaN is not allowed"),
        ('{"secret": 1, "x": 2, "secret": 3}', "repeated key 'secret'"),
    ],
)
def test_json_is_refused_by_reason(text: str, said: str) -> None:
    assert said in reason(json_value, text)


def test_json_in_its_limits_is_read() -> None:
    nested: Any = json_value("[" * DEEPEST + "]" * DEEPEST)
    for _ in range(DEEPEST - 1):
        (nested,) = nested
    assert nested == []
    assert json_value("[NaN, -Infinity]", constants=True)[1] == -float("inf")
    said = reason(json_value, '{"secret": 1, "x": 2, "secret": 3}', private=True)
    assert "secret" not in said and "key 3 of 3" in said


@pytest.mark.statistical
def test_a_parquet_file_may_not_state_what_it_can_t_hold(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    parquet.write_table(arrow.table({"x": np.zeros(1 << 22, np.int8)}), path)
    with opened_parquet(path) as found:
        assert found.metadata.num_rows == 1 << 22
    whole = path.read_bytes()

    def opens() -> None:
        with opened_parquet(path):
            pass

    parquet.write_table(
        arrow.table({"x": arrow.repeat("y" * 40, 1 << 20)}), path, use_dictionary=False, compression="zstd"
    )
    assert path.stat().st_size < 1 << 18
    assert "200 times" in reason(opens)
    path.write_bytes(whole[:-9])
    assert reason(opens) == "is a damaged Parquet file"
    path.write_bytes(b"PAR1")
    assert reason(opens) == "is a damaged Parquet file"
