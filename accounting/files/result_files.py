"""Result files: a path is checked before the work starts, and a file is replaced atomically.

A result may come from hours of sampling. So the content is written to a temporary file next to the target, synchronised
to the disk, and then renamed; a crash, a full disk or Ctrl-C in between leaves the earlier file unchanged.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from hockeystick.accounting.errors import InvalidArgumentError

_FULL = os.makedev(1, 7) if hasattr(os, "makedev") else -1
"""The number of ``/dev/full`` on Linux, which opens, and takes nothing."""


def check_writable(argument: str, path: str | os.PathLike[str]) -> Path:
    """Returns the path to write for ``path``, after checking that it can be written.

    Args:
      argument: The argument that gives the path, for the message.
      path: An existing file (to be replaced), a new name in an existing folder, or a device or pipe.

    Raises:
      InvalidArgumentError: The path is a folder, its folder does not exist, or one of them is not writable.
    """
    shown = os.fspath(path)
    try:
        found = _status(path)
        target = Path(path).resolve()  # the file behind a symbolic link is replaced, not the link
    except (OSError, RuntimeError, ValueError) as error:
        reason = f"can't be written ({getattr(error, 'strerror', None) or error})"
        raise InvalidArgumentError(argument, shown, reason, "give another file") from None
    if found is not None and not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        full = stat.S_ISCHR(found.st_mode) and found.st_rdev == _FULL
        if stat.S_ISSOCK(found.st_mode) or full or not os.access(path, os.W_OK):
            raise InvalidArgumentError(argument, shown, "is not writable", "give another file")
        return Path(path)  # unresolved: the target of the link /dev/stdout has no name
    if found is not None and stat.S_ISDIR(found.st_mode):
        raise InvalidArgumentError(argument, shown, "is a folder", "give the name of a file")
    if found is not None and not os.access(target, os.W_OK):
        raise InvalidArgumentError(argument, shown, "is not writable", "give another file")
    if found is not None and _is_stdout(found):  # replacing it would lose the printed report
        raise InvalidArgumentError(argument, shown, "is the file of the standard output", "give '-' or another file")
    if not target.parent.is_dir():
        raise InvalidArgumentError(argument, shown, f"there is no folder {target.parent}", "create it first")
    try:  # permissions are not enough: nobody can create a file in /proc or on a read-only disk
        descriptor, temporary = _draft(target.parent)
        os.close(descriptor)
        os.unlink(temporary)
    except OSError as error:
        reason = f"the folder {target.parent} is not writable ({error.strerror})"
        raise InvalidArgumentError(argument, shown, reason, "give another file") from None
    return target


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Replaces the file at ``path`` by ``content`` (text as UTF-8), completely or not at all.

    An existing file keeps its permissions; a symbolic link remains one. Devices and pipes (``/dev/null``) can't be
    replaced and are written directly.

    Raises:
      OSError: The content could not be written; an earlier file is unchanged.
    """
    # backslashreplace: a lone surrogate (from a file name, say) must not lose the result
    data = content if isinstance(content, bytes) else content.encode("utf-8", errors="backslashreplace")
    found = _status(path)
    mode = stat.S_IFREG | (0o666 & ~_umask()) if found is None else found.st_mode
    if not stat.S_ISREG(mode):
        Path(path).write_bytes(data)
        return
    target = Path(path).resolve()
    descriptor, temporary = _draft(target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, stat.S_IMODE(mode))  # mkstemp makes it readable for its owner only
        os.replace(temporary, target)
    except BaseException:  # Ctrl-C too must not leave the temporary file behind
        with suppress(OSError):
            os.unlink(temporary)
        raise
    with suppress(OSError):  # some file systems can't open a folder
        sync_folder(target.parent)


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Returns whether writing to ``one`` would replace ``other``; neither has to exist.

    Existing files are compared by identity, as names may differ in case or by links. Writing to a device or pipe
    replaces nothing.
    """
    with suppress(OSError, ValueError):
        if os.path.exists(one) and not os.path.isfile(one):
            return False
        return os.path.samefile(one, other)
    with suppress(OSError, RuntimeError, ValueError):
        return Path(one).resolve() == Path(other).resolve()
    return Path(one) == Path(other)


def _status(path: str | os.PathLike[str]) -> os.stat_result | None:
    """Returns the status of a path, following links; None if it does not exist."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _is_stdout(found: os.stat_result) -> bool:
    with suppress(OSError):  # it may be closed
        return os.path.samestat(found, os.fstat(1))
    return False


def _draft(folder: Path) -> tuple[int, str]:
    """Returns a new file to be renamed; its name is short, as one made from the target's name could be too long."""
    return tempfile.mkstemp(dir=folder, prefix=".hockeystick.", suffix=".tmp")


def sync_folder(folder: Path) -> None:
    """Makes a new name in a folder survive a crash; Windows has no such call and needs none."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    value = os.umask(0o077)  # the mask can be read only by setting another one
    os.umask(value)
    return value
