"""Tests of MODULE:CALLABLE and data arguments: loading, and the errors for every kind of bad input."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hockeystick._files.named_callables import TargetImportError, describe_error, load_data, load_target
from hockeystick.accounting import InvalidArgumentError


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Each test works in a folder of its own; what it makes importable is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def refusal(argument: str, text: str) -> str:
    """Loads data that must be refused, and returns the message, which is one line that names argument and value."""
    with pytest.raises(InvalidArgumentError) as caught:
        load_data(argument, text)
    message = str(caught.value)
    assert message.startswith(f"{argument}=") and "\n" not in message
    assert caught.value.remedy
    return message


# ---------------------------------------------------------------------------------------------------------- data


@pytest.mark.parametrize(
    "text, value",
    [
        ("0", 0),
        ("-1.5", -1.5),
        ("true", True),
        ("null", None),
        ('"text"', "text"),
        ("[0.5, 1]", [0.5, 1]),
        ('{"rows": [1, 2], "k": 3}', {"rows": [1, 2], "k": 3}),
        ("  [1]  ", [1]),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        (str(2**70), 2**70),
        ('"data.csv"', "data.csv"),  # a JSON string, by its quotes; the suffix rule looks at the last characters
    ],
)
def test_inline_json_is_the_decoded_value(text: str, value: Any) -> None:
    loaded = load_data("--d0", text)

    assert loaded == value
    assert type(loaded) is type(value)


def test_inline_nan_is_legal_data() -> None:
    assert math.isnan(load_data("--d0", "NaN"))


def test_inline_json_goes_before_a_file_of_that_name(in_folder: Path) -> None:
    (in_folder / "5").write_text("[1, 2]")

    assert load_data("--d0", "5") == 5


@pytest.mark.parametrize(
    "text, said",
    [
        ("hello", "neither JSON"),
        ("[1, 2", "neither JSON"),
        ("", "neither JSON"),
        ("{'a': 1}", "neither JSON"),
        ('{"a": 1, "a": 2}', "key 2 of 2 in an object repeats an earlier one"),
        ("1e999", "does not fit in a float"),
        ("[" * 100_000, "neither JSON"),
        ("9" * 5000, "neither JSON"),
        ("data.txt", "nor an existing file"),
        ("missing.json", "no such file"),
        ("missing.npy", "no such file"),
        ("MISSING.CSV", "no such file"),
        ("x" * 5000 + ".csv", "can't be read"),
        (".", "a data file must end in"),
    ],
)
def test_bad_inline_data_is_refused(text: str, said: str) -> None:
    assert said in refusal("--d0", text)


def test_the_error_for_text_that_is_neither_json_nor_a_file_names_both() -> None:
    message = refusal("--d1", "hello")

    assert "neither JSON (" in message and "nor an existing file" in message and '"a string"' in message


def test_the_error_for_another_kind_of_file_lists_the_kinds(in_folder: Path) -> None:
    (in_folder / "data.txt").write_text("1,2")

    assert "must end in .json, .npy, .csv" in refusal("--d0", "data.txt")


def test_json_files_are_read(in_folder: Path) -> None:
    (in_folder / "d.json").write_bytes(b'\xef\xbb\xbf{"rows": [1, NaN]}')  # with the mark that some editors write

    rows = load_data("--d0", "d.json")["rows"]

    assert rows[0] == 1 and math.isnan(rows[1])


@pytest.mark.parametrize(
    "content, said",
    [(b"{", "not valid JSON"), (b"", "not valid JSON"), (b'"\xff"', "not UTF-8"), (b"1 2", "not valid JSON")],
)
def test_bad_json_files_are_refused(in_folder: Path, content: bytes, said: str) -> None:
    (in_folder / "d.json").write_bytes(content)

    assert said in refusal("--d0", "d.json")


@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3), np.array(3), np.array(["a", "bc"]), np.zeros((0, 2))])
def test_npy_files_are_read(in_folder: Path, array: np.ndarray[Any, Any]) -> None:
    np.save(in_folder / "d.npy", array)

    loaded = load_data("--d0", "d.npy")

    np.testing.assert_array_equal(loaded, array)
    assert loaded.dtype == array.dtype and loaded.shape == array.shape


def test_npy_with_pickled_objects_is_refused_unopened(in_folder: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return (Path.mkdir, (in_folder / "executed",))  # type: ignore[return-value]

    np.save(in_folder / "d.npy", np.array([Bomb()], dtype=object), allow_pickle=True)

    assert "Python objects" in refusal("--d0", "d.npy")
    assert not (in_folder / "executed").exists()


@pytest.mark.parametrize("content", [b"", b"not an array", b"\x93NUMPY\x01\x00v\x00", b"PK\x03\x04"])
def test_bad_npy_files_are_refused(in_folder: Path, content: bytes) -> None:
    (in_folder / "d.npy").write_bytes(content)

    assert "not a readable .npy file" in refusal("--d0", "d.npy")


def test_truncated_or_boasting_npy_is_refused(in_folder: Path) -> None:
    np.save(in_folder / "d.npy", np.arange(100.0))
    whole = (in_folder / "d.npy").read_bytes()
    (in_folder / "short.npy").write_bytes(whole[:-8])
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000000,), }".ljust(117) + b"\n"
    (in_folder / "boast.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)

    assert "not a readable .npy file" in refusal("--d0", "short.npy")
    assert "not a readable .npy file" in refusal("--d0", "boast.npy")


@pytest.mark.parametrize(
    "content, table",
    [
        ("1,2\n3,4\n", [[1, 2], [3, 4]]),
        ("age,income\n1,2\n", [[1, 2]]),
        ("1\n2\n3", [[1], [2], [3]]),
        ("x\n1\n", [[1]]),
        ('"1","2"\r\n3, 4 \r\n\r\n', [[1, 2], [3, 4]]),
        ("\ufeffa,b\n1,2\n", [[1, 2]]),
        ("-1.5e3,+.5\n1.,inf\n", [[-1500, 0.5], [1, math.inf]]),
        ("2019,2020\n1,2\n", [[2019, 2020], [1, 2]]),  # a header of numbers is data: the rule is stated
    ],
)
def test_csv_files_are_read(in_folder: Path, content: str, table: list[list[float]]) -> None:
    (in_folder / "d.csv").write_text(content, encoding="utf-8")

    loaded = load_data("--d0", "d.csv")

    assert loaded.dtype == np.float64 and loaded.shape == (len(table), len(table[0]))
    np.testing.assert_array_equal(loaded, table)


def test_csv_of_a_header_alone_has_no_rows(in_folder: Path) -> None:
    (in_folder / "d.csv").write_text("a,b\n")

    assert load_data("--d0", "d.csv").shape == (0, 2)


def test_csv_reads_nan_cells(in_folder: Path) -> None:
    (in_folder / "d.csv").write_text("1,nan\n")

    assert math.isnan(load_data("--d0", "d.csv")[0, 1])


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"1,2\n3\n", "line 2 has 1 cells where the first line has 2"),
        (b"a,b\n1,2\n1,2,3\n", "line 3 has 3 cells"),
        (b"1,2\n\n3,4\n", "line 2 has 0 cells"),
        (b"1\n\n3\n", "line 2 has 0 cells"),
        (b"1,2\n3,\n", "line 2 column 2 is empty"),
        (b"1,2\n3,x\n", "line 2 column 2 is not a number"),
        (b"1,2x\n3,4\n", "line 1 column 2 is not a number"),  # half a header would swallow a row of data
        (b"age,2020\n1,2\n", "line 1 column 1 is not a number"),
        (b"1;2\n3;4\n", "line 2 column 1 is not a number"),
        (b"1_0\n2\n3_0\n", "line 3 column 1 is not a number"),  # float() would read 30
        (b"1e999\n1e999\n", "line 2 column 1"),
        (b",\n1,2\n", "line 1 has an empty cell"),
        (b'"1\n', "not a valid CSV file"),
        (b"\xff\xfe1\n", "not UTF-8"),
        (b"a\nTrue\n", "not a number"),
    ],
)
def test_bad_csv_files_are_refused(in_folder: Path, content: bytes, said: str) -> None:
    (in_folder / "d.csv").write_bytes(content)

    assert said in refusal("--d0", "d.csv")


def test_a_folder_is_refused_as_data(in_folder: Path) -> None:
    (in_folder / "d.csv").mkdir()

    assert "can't be read" in refusal("--d0", "d.csv")


# -------------------------------------------------------------------------------------------------------- target

MECHANISM = """
import helper
def release(data, rng):
    return helper.NOISE * rng.normal() + data
class Mechanism:
    @staticmethod
    def run(data, rng):
        return data
NUMBER = 3
"""


@pytest.fixture
def mechanism(in_folder: Path) -> Path:
    (in_folder / "helper.py").write_text("NOISE = 2.0")
    (in_folder / "mymech.py").write_text(MECHANISM)
    return in_folder / "mymech.py"


@pytest.mark.parametrize("spec", ["mymech:release", "mymech.py:release", "./mymech.py:release", "./mymech:release"])
def test_a_file_in_the_working_directory(mechanism: Path, spec: str) -> None:
    assert load_target(spec).__name__ == "release"


def test_a_file_elsewhere_imports_its_neighbours(mechanism: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (mechanism.parent / "elsewhere").mkdir()
    monkeypatch.chdir(mechanism.parent / "elsewhere")

    assert load_target(f"{mechanism}:release")(1.0, np.random.default_rng(0)) != 1.0


def test_dotted_callable_and_module(mechanism: Path) -> None:
    (mechanism.parent / "package").mkdir()
    (mechanism.parent / "package" / "__init__.py").write_text("")
    (mechanism.parent / "package" / "inner.py").write_text("from . import other\nf = other.f")
    (mechanism.parent / "package" / "other.py").write_text("def f(data, rng): return 7")

    assert load_target("mymech:Mechanism.run")(5, None) == 5
    assert load_target("package.inner:f")(0, None) == 7
    assert load_target("math:sqrt") is math.sqrt


def test_a_local_file_goes_before_a_known_module_and_harms_it_not(in_folder: Path) -> None:
    import json

    (in_folder / "json.py").write_text("def f(data, rng): return 'local'")

    assert load_target("json:f")(0, None) == "local"
    assert sys.modules["json"] is json


def test_a_file_is_read_again_when_loaded_again(mechanism: Path) -> None:
    load_target("mymech:release")
    mechanism.write_text("def release(data, rng): return 'new'")

    assert load_target("mymech:release")(0, None) == "new"


def test_dataclasses_in_a_target_file_work(in_folder: Path) -> None:
    code = "from __future__ import annotations\nimport dataclasses\n@dataclasses.dataclass\nclass A:\n    x: int\n"
    code += "def f(d, r): return A(1).x"
    (in_folder / "mymech.py").write_text(code)

    assert load_target("mymech:f")(0, None) == 1


@pytest.mark.parametrize(
    "spec, said",
    [
        ("mymech", "MODULE:CALLABLE"),
        (":f", "MODULE:CALLABLE"),
        ("mymech:", "MODULE:CALLABLE"),
        ("mymech:f()", "MODULE:CALLABLE"),
        ("mymech:a..b", "MODULE:CALLABLE"),
        ("my-mech:f", "not a module name"),
        ("mymec:release", "did you mean mymech.py?"),
        ("mymec.py:release", "did you mean mymech.py?"),
        ("nowhere/mymech.py:release", "there is no file nowhere/mymech.py"),
        ("nomodule_of_this_name.inner:f", "there is no module 'nomodule_of_this_name'"),
        ("math.inner:f", "there is no module 'math.inner'"),
        ("mymech:relaese", "did you mean release?"),
        ("mymech:Mechanism.rnu", "mymech.Mechanism has no 'rnu'; did you mean run?"),
        ("mymech:zzz", "it has Mechanism, release"),
        ("mymech:NUMBER", "is of type int and can't be called"),
    ],
)
def test_a_missing_target_is_refused(mechanism: Path, spec: str, said: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        load_target(spec)

    message = str(caught.value)
    assert message.startswith("target=") and said in message and "\n" not in message


@pytest.mark.parametrize(
    "code, said",
    [
        ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library' (broken.py, line 1)"),
        ("from math import nothing", "ImportError"),
        ("def f(:\n", "SyntaxError: invalid syntax (broken.py, line 1)"),
        ("\n1 / 0", "ZeroDivisionError: division by zero (broken.py, line 2)"),
        ("raise SystemExit('used as a script')", "SystemExit: used as a script"),
        ("from . import sibling", "ImportError"),
        ("raise RuntimeError('two\\nlines')", "RuntimeError: two lines"),
    ],
)
@pytest.mark.parametrize("spec", ["broken:f", "broken.py:f", "pkg.broken:f"])
def test_an_error_inside_the_module_is_shown_in_one_line(in_folder: Path, code: str, said: str, spec: str) -> None:
    folder = in_folder / "pkg" if spec.startswith("pkg") else in_folder
    folder.mkdir(exist_ok=True)
    (folder / "broken.py").write_text(code)
    if "from ." in code and spec.startswith("pkg"):
        pytest.skip("legal inside a package")

    with pytest.raises(TargetImportError) as caught:
        load_target(spec)

    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.__cause__ is not None
    assert "broken" not in sys.modules


def test_ctrl_c_inside_a_module_is_not_an_import_error(in_folder: Path) -> None:
    (in_folder / "slow.py").write_text("raise KeyboardInterrupt")

    with pytest.raises(KeyboardInterrupt):
        load_target("slow:f")


def test_describe_error_names_the_line_that_raised() -> None:
    try:
        math.sqrt(-1)
    except ValueError as error:
        assert describe_error(error).startswith("ValueError: ")
        assert "test_named_callables.py, line" in describe_error(error)
    assert describe_error(KeyError()) == "KeyError"
