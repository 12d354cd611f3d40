"""Files of arrays that a command writes beside its result, such as the expert of every round."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from hockeystick._cli.frame.destinations import ResultFiles, output_file, write


def array_path(name: str | None, files: ResultFiles, option: str = "--actions") -> Path | None:
    """Returns where an option's array goes, checked before the work starts; None if nowhere."""
    return None if name is None else output_file(option, name, *files.paths.values())


def write_array(path: Path, values: Any) -> None:
    """Writes an array as an .npy file."""
    import numpy as np

    buffer = io.BytesIO()
    np.save(buffer, values)
    write(path, buffer.getvalue())
