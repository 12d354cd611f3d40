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
      argument: The name under which the caller knows the path, for the message.
      path: An existing file (which is going to be replaced), a new name in an existing folder, or a device or pipe.

    Raises:
      InvalidArgumentError: It is a folder, its folder does not exist, or either can't be written to.
    """
    shown = os.fspath(path)
    try:
        found = _status(path)
        if found is not None and not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
            if stat.S_ISSOCK(found.st_mode) or not os.access(path, os.W_OK):
                raise InvalidArgumentError(argument, shown, "is not writable", "give another file")
            return Path(path)  # as it was given: where the link /dev/stdout leads to has no name
        target = Path(path).resolve()  # replacing a symbolic link would leave the file behind it at its old content
    except (OSError, RuntimeError, ValueError) as error:
        reason = f"can't be written ({getattr(error, 'strerror', None) or error})"
        raise InvalidArgumentError(argument, shown, reason, "give another file") from None
    if found is not None and stat.S_ISDIR(found.st_mode):
        raise InvalidArgumentError(argument, shown, "is a folder", "give the name of a file")
    if found is not None and not os.access(target, os.W_OK):
        raise InvalidArgumentError(argument, shown, "is not writable", "give another file")
    if found is not None and _is_stdout(found):  # replaced, it would lose all that is printed
        raise InvalidArgumentError(
            argument, shown, "is where the standard output goes, too", "give '-' or another file"
        )
    if not target.parent.is_dir():
        raise InvalidArgumentError(argument, shown, f"there is no folder {target.parent}", "create it first")
    try:  # permissions don't tell: no one may make a file in /proc, or on a disk that is mounted for reading
        descriptor, temporary = _draft(target.parent)
        os.close(descriptor)
        os.unlink(temporary)
    except OSError as error:
        reason = f"the folder {target.parent} is not writable ({error.strerror})"
        raise InvalidArgumentError(argument, shown, reason, "give another file") from None
    return target


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Replaces the file at ``path`` by ``content`` (a text in UTF-8), as a whole or not at all.

    An existing file keeps its permissions; a symbolic link stays one. What is no regular file (``/dev/null``, a pipe)
    can't be replaced and is written to directly.

    Raises:
      OSError: The content could not be written; the earlier file, if there was one, is unchanged.
    """
    # backslashreplace: half a surrogate pair (from a file name, say) must not cost the result
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
        os.chmod(temporary, stat.S_IMODE(mode))  # mkstemp makes it private to its owner
        os.replace(temporary, target)
    except BaseException:  # Ctrl-C too must not leave the temporary file behind
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(target.parent)


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Returns whether what is written to ``one`` would replace ``other``; neither need exist yet.

    Files that exist know best: names may differ in their case alone, or by a link. Devices and pipes are not replaced.
    """
    with suppress(OSError, ValueError):
        if os.path.exists(one) and not os.path.isfile(one):
            return False
        return os.path.samefile(one, other)
    with suppress(OSError, RuntimeError, ValueError):
        return Path(one).resolve() == Path(other).resolve()
    return Path(one) == Path(other)


def _status(path: str | os.PathLike[str]) -> os.stat_result | None:
    """What is at a path, behind links; None if nothing is. A pipe behind a link of /proc has no path of its own."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _is_stdout(found: os.stat_result) -> bool:
    with suppress(OSError):  # it may be closed
        return os.path.samestat(found, os.fstat(1))
    return False


def _draft(folder: Path) -> tuple[int, str]:
    """Returns a new file to be renamed. Its name is short: one made from the target's could be longer than names may be."""
    return tempfile.mkstemp(dir=folder, prefix=".hockeystick.", suffix=".tmp")


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
