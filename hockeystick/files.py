"""Result files: a path is checked before the work starts, and a file is replaced as a whole or not at all.

A result may be the end of hours of sampling. So the content goes to a temporary file beside the target, reaches the
disk, and only then takes the target's name; a crash, a full disk or Ctrl-C in between leaves the earlier file as it
was.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from hockeystick.accounting.errors import InvalidArgumentError


def check_writable(argument: str, path: str | os.PathLike[str]) -> Path:
    """Returns where a result given as ``path`` will be written, having checked that it can be.

    Args:
      argument: the name under which the caller knows the path, for the message.
      path: an existing file (which is going to be replaced), a new name in an existing folder, or a device or pipe.

    Raises:
      InvalidArgumentError: it is a folder, its folder does not exist, or either can't be written to.
    """
    shown = os.fspath(path)
    target = Path(path)
    try:
        target = target.resolve()  # replacing a symbolic link would leave the file behind it at its old content
        mode = target.stat().st_mode
    except FileNotFoundError:
        mode = None
    except (OSError, RuntimeError, ValueError) as error:
        reason = f"can't be written ({getattr(error, 'strerror', None) or error})"
        raise InvalidArgumentError(argument, shown, reason, "give another file") from None
    if mode is not None and stat.S_ISDIR(mode):
        raise InvalidArgumentError(argument, shown, "is a folder", "give the name of a file")
    if mode is not None and not os.access(target, os.W_OK):
        raise InvalidArgumentError(argument, shown, "is not writable", "give another file")
    if mode is None or stat.S_ISREG(mode):
        folder = target.parent
        if not folder.is_dir():
            raise InvalidArgumentError(argument, shown, f"there is no folder {folder}", "create it first")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InvalidArgumentError(argument, shown, f"the folder {folder} is not writable", "give another file")
    return target


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Replaces the file at ``path`` by ``content`` (a text in UTF-8), as a whole or not at all.

    An existing file keeps its permissions; a symbolic link stays one. What is no regular file (``/dev/null``, a pipe)
    can't be replaced and is written to directly.

    Raises:
      OSError: the content could not be written; the earlier file, if there was one, is unchanged.
    """
    # backslashreplace: half a surrogate pair (from a file name, say) must not cost the result
    data = content if isinstance(content, bytes) else content.encode("utf-8", errors="backslashreplace")
    target = Path(path).resolve()
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG | (0o666 & ~_umask())
    if not stat.S_ISREG(mode):
        target.write_bytes(data)
        return
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, stat.S_IMODE(mode))  # mkstemp makes it private to its owner
        os.replace(temporary, target)
    except BaseException:  # Ctrl-C too must not leave the temporary file behind
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Makes the rename itself reach the disk, where the system can do that."""
    with suppress(OSError):  # some systems and file systems can't open a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _umask() -> int:
    value = os.umask(0o077)  # the system tells the mask only by setting another one
    os.umask(value)
    return value
