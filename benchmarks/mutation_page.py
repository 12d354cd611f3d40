"""What became of the mutants, in words: the score, the survivors and why they survive, and the page with both."""

from __future__ import annotations

import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen
from attrs.validators import in_, min_len

from benchmarks.table import DOCS

EXPLANATIONS = Path(__file__).parent / "mutation_survivors.toml"
PAGE = DOCS / "mutation-testing.md"
KINDS = {
    "same": "no input tells it from the original",
    "safe": "bounds stay bounds: a margin is larger, or a result is at most by its stated accuracy elsewhere",
    "speed": "the same results, later or with more memory",
    "wording": "text for people",
    "late": "a fast test notices it that is not among those of the first twenty seconds",
}
NOTICED = ("killed", "timed out", "killed slowly")
STATUSES = (*NOTICED, "survived", "not reached")

Change = tuple[str, str, str]


@frozen
class Explanation:
    """Why some mutants of one line may survive.

    Attributes:
      file: in accounting/.
      line: as it is, without indentation and line breaks.
      mutated: what it may become.
      kind: one of ``KINDS``.
      why: in a sentence.
    """

    file: str
    line: str
    mutated: tuple[str, ...] = field(converter=tuple, validator=min_len(1))
    kind: str = field(validator=in_(KINDS))
    why: str = field(validator=min_len(10))


@frozen
class Finding:
    """What became of a mutant: its place, the lines before and after, and one of ``STATUSES``."""

    file: str
    number: int
    operator: str
    line: str
    mutated: str
    status: str = field(validator=in_(STATUSES))

    @property
    def noticed(self) -> bool:
        """Whether a test failed, fast or slow."""
        return self.status in NOTICED

    @property
    def change(self) -> Change:
        """What an explanation is found by."""
        return self.file, self.line, self.mutated


@frozen
class Sample:
    """Findings, of all mutants or of some that were drawn.

    Attributes:
      findings: of each that was tried.
      population: how many mutants there are.
      seed: of the draw.
    """

    findings: tuple[Finding, ...]
    population: int
    seed: int

    @property
    def survivors(self) -> tuple[Finding, ...]:
        """Those that no test noticed, in the order of the sources."""
        left = (finding for finding in self.findings if not finding.noticed)
        return tuple(sorted(left, key=lambda finding: (finding.file, finding.number, finding.mutated)))

    def unexplained(self, known: Mapping[Change, Explanation]) -> tuple[Finding, ...]:
        """Survivors that nothing is known of."""
        return tuple(finding for finding in self.survivors if finding.change not in known)

    def score(self) -> tuple[float, float, float]:
        """The share that fast tests noticed, and the ends of its exact 95 % interval where mutants were drawn."""
        from scipy.stats import binomtest

        noticed = sum(finding.noticed and finding.status != "killed slowly" for finding in self.findings)
        size = len(self.findings)
        if size in (0, self.population):
            share = noticed / size if size else 1.0
            return share, share, share
        ends = binomtest(noticed, size).proportion_ci(0.95, "exact")
        return noticed / size, float(ends.low), float(ends.high)


def explanations(path: Path = EXPLANATIONS) -> dict[Change, Explanation]:
    """Reads why mutants survive, by file, line and mutated line.

    Raises:
      ValueError: one is explained twice.
    """
    found: dict[Change, Explanation] = {}
    for row in tomllib.loads(path.read_text(encoding="utf-8")).get("survivor", []):
        explanation = Explanation(**row)
        for mutated in explanation.mutated:
            if (explanation.file, explanation.line, mutated) in found:
                raise ValueError(f"{explanation.file}: explained twice: {mutated}")
            found[explanation.file, explanation.line, mutated] = explanation
    return found


def summary(sample: Sample, known: Mapping[Change, Explanation]) -> str:
    """The score in a few lines, and the survivors that are not explained."""
    counts = Counter(finding.status for finding in sample.findings)
    lines: list[str] = []
    for finding in sample.unexplained(known):
        lines += [f"{finding.file}:{finding.number} {finding.status} ({finding.operator})"]
        lines += [f"   - {finding.line}", f"   + {finding.mutated}"]
    lines.append(", ".join(f"{counts[status]} {status}" for status in STATUSES))
    lines.append(_score_in_words(sample))
    lines.append(f"{len(sample.survivors)} survivors, {len(sample.unexplained(known))} of them not explained")
    return "\n".join(lines)


def _score_in_words(sample: Sample) -> str:
    share, low, high = sample.score()
    told = f"{share:.1%} of {_size_in_words(sample)} are noticed by a fast test"
    return told if low == high else f"{told}; of all {low:.1%} to {high:.1%} (95 %, exact), were none of these known"


def _size_in_words(sample: Sample) -> str:
    size = len(sample.findings)
    if size == sample.population:
        return f"all {size} mutants"
    return f"{size} mutants, drawn from {sample.population} with seed {sample.seed},"


def page(sample: Sample, known: Mapping[Change, Explanation]) -> str:
    """Returns docs/mutation-testing.md."""
    return _PAGE.format(
        score=f"{sample.score()[0]:.1%} of {_size_in_words(sample)} are noticed by a fast test",
        kinds="\n".join(f"- *{kind}*: {words}" for kind, words in KINDS.items()),
        reasons=_reasons(sample, known),
        files=_files(sample),
        survivors=_survivors(sample, known),
    )


def _reasons(sample: Sample, known: Mapping[Change, Explanation]) -> str:
    kinds = Counter(known[finding.change].kind if finding.change in known else "" for finding in sample.survivors)
    told = [f"{kinds[kind]} *{kind}*" for kind in KINDS if kinds[kind]]
    if kinds[""]:
        told.append(f"{kinds['']} **not explained**")
    return ", ".join(told) or "none"


def _files(sample: Sample) -> str:
    lines = [f"| file | mutants | {' | '.join(STATUSES)} |", "|---" + "|---:" * (1 + len(STATUSES)) + "|"]
    by_file: dict[str, Counter[str]] = defaultdict(Counter)
    for finding in sample.findings:
        by_file[finding.file][finding.status] += 1
    for file, counts in sorted(by_file.items()):
        cells = [f"{counts[status]}" for status in STATUSES]
        lines.append(f"| `accounting/{file}` | {counts.total()} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _survivors(sample: Sample, known: Mapping[Change, Explanation]) -> str:
    lines, file, line = [], "", ""
    for finding in sample.survivors:
        if finding.file != file:
            lines += ["", f"### {finding.file}", ""]
        if (finding.file, finding.line) != (file, line):
            lines.append(f"- {_code(finding.line)}")
        file, line = finding.file, finding.line
        reason = known.get(finding.change)
        words = f"*{reason.kind}*: {reason.why}" if reason else "**not explained**"
        unreached = "; no test runs it" if finding.status == "not reached" else ""
        lines.append(f"  - {_code(finding.mutated)}{unreached}. {words}")
    return "\n".join(lines).strip() or "None."


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


_PAGE = """# Mutation testing

Is every small mistake in accounting noticed by a test? A mutant is the code with one such mistake: `<` for `<=`, `+`
for `-`, a number one larger, a condition turned round, a minimum for a maximum, a refusal left out. It is *killed* if a
test fails, and *survives* otherwise.

**{score}.** Survivors: {reasons}.

Survivors are given tests where the mistake matters, and those of these mutants were: of mutants that nobody has looked
at yet fewer are noticed. A sample with another `--seed` tells how many.

{kinds}

## How it is done

```bash
pip install mutmut
python -m benchmarks.mutation --sample 1500           # some mutants, drawn from all; those that were tried are kept
python -m benchmarks.mutation --only tilted_law       # all of one file
python -m benchmarks.mutation --sample 1500 --slow    # survivors once more, with slow tests among theirs
python -m benchmarks.mutation --sample 1500 --write   # and write this page
```

Once, every fast test is run with its lines recorded (`coverage`). Then each mutant gets a process of its own, forked
from one that has imported all other packages, and the tests that run its statement: first those that run little else,
with quick ones of their files, at most 20 seconds of processor time in all; then the other tests of these files in what
is left. The mutated file is in memory only. A test that takes ten times as long as usual, and five seconds more, has
noticed the mutant too (*timed out*). What is changed in the code that runs while a module is imported is tried by the
tests that run any line of its file. *Killed slowly* is what only a test that is marked slow noticed: it is not in the
score.

mutmut's operators make the mutants, but its runner does not try them: it mutates functions without decorators alone and
no code outside of functions, chooses tests by function and not by line, and draws no samples. cosmic-ray changes files
in place and starts pytest anew for each mutant: seconds of imports before the first test.

Left out by rule: annotations, imports, decorators, docstrings, the text of errors and what is computed for it,
f-strings, `__repr__` and its like, `__all__`, words that are neither compared nor a key. Arguments are left out where
they are named, and never replaced by `None`: that is a type error, which any test notices.

## By file

{files}

## Survivors

Explanations are kept in `benchmarks/mutation_survivors.toml`; a survivor without one makes the command fail.

{survivors}
"""
