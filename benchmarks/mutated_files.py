"""Every format that the library reads, in thousands of damaged files: errors, hangs and lost numbers, counted.

    python -m benchmarks.mutated_files [--write] [--only PATTERN] [--work FOLDER]

Of a small sound file of each format, mutations are read by the product's own readers: flipped bits, bytes cut out, put
twice or cut off, extreme numbers, deep nesting, huge sizes. Every cell of 250 mutations is kept as soon as it is done,
and a later run goes on from there. ``--write`` puts the table into docs/benchmarks-mutated-files.md.
"""

from __future__ import annotations

import contextlib
import fnmatch
import io
import resource
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.file_formats import FORMATS, Format
from benchmarks.frame import DOCS, Cells, Result, arguments, digest, machine, markdown
from hockeystick.accounting import HockeystickError

EACH = 250  # mutations of a cell
CELLS = 8  # of a format
SECONDS = 10.0  # of CPU, above which a reader hangs
MEMORY = 4 << 30  # bytes of address space, above which a reader gets no more

_EXTREME = (
    b"1e308", b"1e309", b"-1", b"0", b"-0.0", b"5e-324", b"NaN", b"Infinity", b"-Infinity", b"9" * 30, b"9" * 5000,
    b"1e-400", b"true", b"null", b'"inf"', b'""', b"[]", b"{}", b"2147483648", b"18446744073709551616",
)  # fmt: skip
_WORDS = (b"\xff" * 4, b"\xff" * 8, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0" * 8, b"\0\0\0\x80", b"\xef\xbb\xbf")


def mutated(content: bytes, coins: Random) -> bytes:
    """Returns a content with one to three mutations."""
    found = bytearray(content)
    for _ in range(coins.choice((1, 1, 1, 2, 3))):
        _mutate(found, coins)
    return bytes(found)


def _mutate(found: bytearray, coins: Random) -> None:
    size = len(found)
    near = coins.randrange(min(size, 160) + 1)  # most that can go wrong is in the head and in the tail
    at = coins.choice((coins.randrange(size + 1), coins.randrange(size + 1), near, max(0, size - near)))
    length = coins.choice((1, 2, 4, 8, 16, 64, 512))
    kind = 7 if found[:1].decode("latin-1") in "{[" and coins.random() < 0.4 else coins.randrange(9)
    if kind == 0 and at < size:
        found[at] ^= 1 << coins.randrange(8)
    elif kind == 1:
        found[at : at + 1] = bytes([coins.randrange(256)])
    elif kind == 2:
        del found[at : at + length]
    elif kind == 3:
        found[at:at] = found[at : at + length]
    elif kind == 4:
        del found[at:]
    elif kind == 5:
        found[at : at + length] = coins.randbytes(length)
    elif kind == 6:
        word = coins.choice(_WORDS)
        found[at : at + len(word)] = word
    elif kind == 7:
        _replace_number(found, at, coins)
    else:
        opening, depth = coins.choice((b"[", b'{"a":', b"(", b'"')), coins.choice((20, 300, 30_000))
        found[at:at] = opening * depth


def _replace_number(found: bytearray, at: int, coins: Random) -> None:
    """Replaces the next number in a text."""
    digits = b"0123456789.e+-"
    start = next((i for i in range(at, len(found)) if 48 <= found[i] < 58), None)
    if start is None:
        return
    stop = start
    while stop < len(found) and found[stop] in digits:
        stop += 1
    usual = b"%d" % coins.randrange(10), b"%.3g" % coins.uniform(0.0, 10.0)
    found[start:stop] = coins.choice((coins.choice(_EXTREME), *usual))


class Hang(BaseException):
    """A reader that was stopped after ``SECONDS`` of CPU."""


def _stop(*_: object) -> None:
    raise Hang


def cell(name: str, seed: int, each: int = EACH) -> Result:
    """Reads mutations of a format; returns the counts, and the first raw errors in words."""
    one: Format = FORMATS[name]
    coins = Random(f"{name} {seed}")
    found: Result = {"tried": 0, "accepted": 0, "refused": 0, "raw": 0, "hangs": 0, "below": 0, "compared": 0}
    wrong: list[str] = []
    slowest = 0.0
    before = signal.signal(signal.SIGPROF, _stop)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    fast = "/dev/shm" if Path("/dev/shm").is_dir() else None  # nothing crashes here
    with (
        tempfile.TemporaryDirectory(dir=fast) as folder,
        warnings.catch_warnings(),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        sound = one.make(Path(folder))
        path = Path(folder) / f"mutated{one.suffix}"
        path.write_bytes(sound)
        assert one.compare(sound, one.read(path)) is not False, f"{name}: the sound file is not accepted"
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, limits[1]))
        try:
            for _ in range(each):
                damaged = mutated(sound, coins)
                if damaged == sound:
                    continue
                for other in Path(folder).glob("mutated*"):
                    other.unlink()
                path.write_bytes(damaged)
                found["tried"] += 1
                start = time.process_time()
                signal.setitimer(signal.ITIMER_PROF, SECONDS)
                said = _read(one, path, damaged, found)
                signal.setitimer(signal.ITIMER_PROF, 0.0)
                slowest = max(slowest, time.process_time() - start)
                wrong += [said] if said else []
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            signal.signal(signal.SIGPROF, before)
            resource.setrlimit(resource.RLIMIT_AS, limits)
    return {**found, "slowest": slowest, "wrong": wrong[:5]}


def _read(one: Format, path: Path, damaged: bytes, found: Result) -> str:
    """Reads one file and counts; returns a text about anything wrong."""
    try:
        value = one.read(path)
        found["accepted"] += 1
        kept = one.compare(damaged, value)
        found["compared"] += kept is not None
        found["below"] += kept is False
        return f"below: {damaged[:300]!r}" if kept is False else ""
    except HockeystickError:
        found["refused"] += 1
    except Hang:
        found["hangs"] += 1
        return f"hang: {damaged[:300]!r}"
    except Exception as error:
        found["raw"] += 1
        return f"{type(error).__name__}: {error}: {damaged[:300]!r}"
    return ""


_PAGE = """# Mutated files: readers, counted

{total} damaged files were read. {raw} raised an error that is not a `HockeystickError`, {hangs} took more than 10 CPU
seconds, and {below} were accepted with less than they hold. Reading had {memory} GiB of address space.

Written by `python -m benchmarks.mutated_files --write`; edit that instead.

{machine}.

{table}

*Refused* files raised a typed error. *Compared* files were accepted, and the result was compared with a reading of the
same bytes by other code: the ε of graphs and guarantees with the sum of the pure ε of their releases, fields of
verdicts, locks and results with those of Python's own parser, and whatever has a digest (ledgers, evidence, journals,
checkpoints) with the sound file. Files without a digest can be changed into other valid files, and no reader notices:
*holds less* refers to the changed file. A text ledger of an earlier version may lose whole lines at its end;
that is why [budgets](budgets.md#real-spending) are databases now. Arrays, tables and Parquet pages have nothing to
compare with. Whole numbers above 2^53 count as read if the nearest float was.

Mutations are one to three of: a flipped bit, a random byte, up to 512 bytes cut out, put twice or overwritten, the end
cut off, extreme machine words, extreme numbers in place of a number, and 20 to 30,000 opening brackets.
"""


def main() -> int:
    """Reads mutations of all formats, and returns 1 if a reader raised, hung, or lost a number."""
    parser = arguments("Damaged files of every format, read.", page="benchmarks-mutated-files.md", only="formats")
    options = parser.parse_args()
    sources = digest("benchmarks/mutated_files.py", "benchmarks/file_formats.py", "accounting/files")
    cells = Cells(options.work / "mutated_files.jsonl", sources, quiet=False)
    rows: list[list[Any]] = []
    total: dict[str, int] = {}
    counts = ("tried", "accepted", "refused", "compared", "raw", "hangs", "below")
    for name in FORMATS:
        if not fnmatch.fnmatch(name, options.only or "*"):
            continue
        done = [cells.one(cell, name=name, seed=seed) for seed in range(CELLS)]
        for one in done:
            for text in one["wrong"]:
                print(f"{name}: {text}", file=sys.stderr)
        sums = {count: sum(one[count] for one in done) for count in counts}
        total = {count: total.get(count, 0) + sums[count] for count in counts}
        rows.append([name, *sums.values(), max(one["slowest"] for one in done)])
        print(rows[-1], file=sys.stderr, flush=True)
    columns = "format | tried | accepted | refused | compared | raw errors | hangs | holds less | slowest, CPU s"
    rows.append(["all", *total.values(), max(row[-1] for row in rows)])
    page = _PAGE.format(
        total=f"{total['tried']:,}",
        raw=total["raw"],
        hangs=total["hangs"],
        below=total["below"],
        memory=MEMORY >> 30,
        machine=machine(),
        table=markdown(columns, rows),
    )
    print(page)
    if options.write:
        (DOCS / "benchmarks-mutated-files.md").write_text(page, encoding="utf-8")
    return int(bool(total["raw"] or total["hangs"] or total["below"]))


if __name__ == "__main__":
    raise SystemExit(main())
