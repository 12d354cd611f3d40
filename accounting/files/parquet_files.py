"""Parquet files of unknown origin, whose stated sizes are checked before any of it is decoded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hockeystick.accounting.errors import HockeystickError
from hockeystick.accounting.files.reading import Path, UnreadableFileError, opened
from hockeystick.accounting.optional_packages import require

_FACTOR = 200
"""The largest accepted ratio of the stated content to the size of the file, beyond ``_FREE``."""

_FREE = 1 << 24
"""Bytes, and rows, that a file of any size may state."""


@contextmanager
def opened_parquet(path: Path) -> Iterator[Any]:
    """Yields the ``pyarrow.parquet.ParquetFile`` at a path; whatever Arrow raises in the block is a refusal too.

    Raises:
      MissingExtraError: pyarrow is not installed.
      UnreadableFileError: it can't be read, is damaged, or states more than a file of its size can hold.
    """
    require("pyarrow", "a Parquet file", extra="tables")
    parquet = require("pyarrow.parquet", "a Parquet file", extra="tables")
    with opened(path) as file:
        try:
            with parquet.ParquetFile(file) as found:
                _check(found.metadata, os.fstat(file.fileno()).st_size)
                yield found
            return
        except HockeystickError:
            raise
        except MemoryError:
            reason = "does not fit into memory"
        except Exception:  # from Arrow, or from Python's decoding; the message may hold values
            reason = "is a damaged Parquet file"
        raise UnreadableFileError(reason)


def _check(metadata: Any, size: int) -> None:
    most = _FREE + _FACTOR * size
    stated = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
    if min(stated, default=0) < 0 or sum(stated) > most or not 0 <= metadata.num_rows <= most:
        raise UnreadableFileError(f"says that it holds {_FACTOR} times what it has")
