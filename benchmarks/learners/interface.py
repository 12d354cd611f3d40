"""Writes the table of the online learners' methods into docs/online-learners.md.

    python -m benchmarks.learners.interface [--write]

Without ``--write`` it prints the table.
"""

from __future__ import annotations

import sys

import hockeystick.learners
from benchmarks.frame import ROOT, arguments, markdown
from hockeystick.learners.common.online_learner import METHODS, OnlineLearner

PAGE = ROOT / "docs" / "online-learners.md"
MARKS = "<!-- interface -->", "<!-- /interface -->"


def table() -> str:
    """Returns the table and, below it, why methods are missing."""
    public = (getattr(hockeystick.learners, name) for name in sorted(hockeystick.learners.__all__))
    learners = [one for one in public if isinstance(one, type) and issubclass(one, OnlineLearner)]
    rows, reasons = [], []
    for learner in learners:
        rows.append((f"`{learner.__name__}`", *("–" if name in learner.refuses else "yes" for name in METHODS)))
        by_reason: dict[str, list[str]] = {}
        for name, reason in learner.refuses.items():
            by_reason.setdefault(reason, []).append(f"`{name}`")
        reasons += [f"- `{learner.__name__}` has no {', '.join(names)}: {why}." for why, names in by_reason.items()]
    shown = [name.replace("_", " ") for name in METHODS]
    return markdown(["learner", *shown], rows) + "\n\n" + "\n".join(reasons)


def main() -> int:
    """Prints the table, or writes it into its page."""
    options = arguments((__doc__ or "").splitlines()[0], page=PAGE.name).parse_args()
    if not options.write:
        print(table())
        return 0
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    PAGE.write_text(f"{before}{MARKS[0]}\n\n{table()}\n\n{MARKS[1]}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
