"""Result files: replaced as a whole or not at all, and checked before the work starts."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.files.result_files import check_writable, write_atomically


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_has_the_text_and_usual_permissions(tmp_path: Path) -> None:
    ordinary = tmp_path / "ordinary"
    ordinary.write_text("")

    write_atomically(tmp_path / "new.json", "ε\n")

    assert (tmp_path / "new.json").read_bytes() == "ε\n".encode()
    assert (tmp_path / "new.json").stat().st_mode == ordinary.stat().st_mode
    assert leftovers(tmp_path) == ["new.json", "ordinary"]


def test_a_replaced_file_keeps_its_permissions_and_its_link(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "real.json").chmod(0o640)
    (tmp_path / "link.json").symlink_to("real.json")

    write_atomically(tmp_path / "link.json", "new")

    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text() == "new"
    assert stat.S_IMODE((tmp_path / "real.json").stat().st_mode) == 0o640


def test_half_a_surrogate_pair_costs_nothing(tmp_path: Path) -> None:
    write_atomically(tmp_path / "new.json", '"\udc80"')

    assert (tmp_path / "new.json").read_text() == r'"\udc80"'


@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
@pytest.mark.parametrize("blow", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_while_writing_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, blow: BaseException
) -> None:
    (tmp_path / "result.json").write_text("old")

    def fail(*_: Any) -> None:
        raise blow

    with monkeypatch.context() as patch, pytest.raises(type(blow)):
        patch.setattr(os, step, fail)
        write_atomically(tmp_path / "result.json", "new" * 100_000)

    assert (tmp_path / "result.json").read_text() == "old"
    assert leftovers(tmp_path) == ["result.json"]


@pytest.mark.statistical
def test_a_process_killed_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("old")
    code = (
        "import os, sys; from hockeystick.accounting.files.result_files import write_atomically\n"
        "os.fsync = lambda _: os._exit(9)  # the text is written, the power goes\n"
        "write_atomically(sys.argv[1], 'new' * 100_000)"
    )

    died = subprocess.run([sys.executable, "-c", code, str(tmp_path / "result.json")], check=False)

    assert died.returncode == 9
    assert (tmp_path / "result.json").read_text() == "old"


def test_devices_are_written_not_replaced() -> None:
    write_atomically(os.devnull, "text")

    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_check_writable_names_the_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    for path, said in [
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "x.json", "there is no folder"),
        (tmp_path / "file" / "x.json", "can't be written"),
        (tmp_path / "loop", "can't be written"),
        (tmp_path / ("x" * 300), "can't be written"),
    ]:
        with pytest.raises(InvalidArgumentError, match="--json=.*" + said):
            check_writable("--json", path)
    with pytest.raises(InvalidArgumentError, match="^--json='/dev/full': is not writable; give another file$"):
        check_writable("--json", "/dev/full")

    assert check_writable("--json", tmp_path / "new.json") == (tmp_path / "new.json").resolve()
    assert check_writable("--json", tmp_path / "file").read_text() == ""
    assert check_writable("--json", os.devnull) == Path(os.devnull)
    assert leftovers(tmp_path) == ["file", "loop"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_check_writable_refuses_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    with pytest.raises(InvalidArgumentError, match="not writable"):
        check_writable("--json", tmp_path / "new.json")
