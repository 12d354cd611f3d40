"""The work of ``hockeystick group-by``: counts, sums, means and variances by group, as plain dictionaries.

The keys of the groups are public, or selected privately: a list of the keys of a table gives those away that one person
alone has. Whether a group is shown then depends on its number of persons.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import field, frozen

from hockeystick._files.group_table import Key, Rows, read_rows
from hockeystick._files.histogram_table import OTHER
from hockeystick._files.missing_values import MissingRule
from hockeystick._files.symbol_tables import Table
from hockeystick._runs.guarantee_entries import certified_content, drawn_from
from hockeystick._runs.releases.moment_release import Measure, MomentNoise, measure_content, merged
from hockeystick.accounting import AccountantGraph, Adjacency, DurableLedger, InvalidArgumentError, compose
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import real
from hockeystick.mechanisms.data.kept_rows import KeptRows
from hockeystick.mechanisms.partitions.partition_selection import MOST_PARTITIONS, PartitionSelection
from hockeystick.mechanisms.randomness.noise import Noise, ReleaseNoise, SimulationNoise
from hockeystick.mechanisms.release import charged

_MOST_KEYS = 1_000_000
_MOST_OF_DELTA = 1.0 - 2.0**-20  # for keys: what is left covers the rounding of a composition
_SEPARATOR = "\x1f"  # between the columns of a key, where it is hashed


@frozen(kw_only=True)
class GroupBy:
    """Statistics of a table's rows by group.

    Attributes:
        by: The columns of the key.
        keys: The public keys, the last one for all others; None if they are selected privately.
        noise: The noise on the sums of each group.
        selection: The private selection of keys; None if they are public.
        person: The column with a row's person; None if each row is a person of its own.
        kept: The rows of a person that are kept.
        missing: The rule for missing values.
        adjacency: The neighbouring relation.
        failure: The probability with which each interval fails.
    """

    by: tuple[str, ...]
    keys: tuple[Key, ...] | None = field(repr=False)
    noise: MomentNoise
    selection: PartitionSelection | None
    person: str | None
    kept: KeptRows
    missing: MissingRule
    adjacency: Adjacency
    failure: float

    @classmethod
    def calibrated(
        cls,
        *,
        by: Sequence[str],
        keys: Sequence[Key] | None,
        measures: Sequence[Measure],
        epsilon: float,
        delta: float,
        adjacency: Adjacency,
        missing: MissingRule,
        person: str | None = None,
        rows: int = 1,
        groups: int | None = None,
        share: float = 0.5,
        failure: float = 0.05,
    ) -> GroupBy:
        """Returns the plan whose release is (``epsilon``, ``delta``)-DP for a person.

        Args:
            by: One or more columns.
            keys: Public keys, a text for each column; None to select them privately, which needs δ > 0.
            measures: The columns that are summarised; none for the number of rows alone.
            epsilon, delta: The target.
            adjacency: Add-or-remove-one or replace-one.
            missing: The rule for missing values.
            person: The column with a row's person.
            rows: The largest number of rows of a person that are kept.
            groups: The largest number of groups of a person; by default as many as rows.
            share: The part of ε for the selection of keys.
            failure: The probability with which each interval fails.

        Raises:
            InvalidArgumentError: An argument is outside its domain, a column has two roles, or a key occurs twice.
            NumericalError: No noise can be shown to reach the target.
        """
        asked = merged(measures)
        names = [*by, *(one.column for one in asked), *((person,) if person else ())]
        if not by or len(set(names)) < len(names):
            raise InvalidArgumentError("--by", names, "names a column twice, or none", "give different columns")
        real("failure", failure, low=1e-9, high=0.5)
        part = real("share", share, low=0.01, high=0.99)
        kept = KeptRows(rows, groups=None if groups is None else min(groups, rows))
        most = kept.groups or kept.most
        selection = None
        rest = epsilon, delta
        if keys is None:
            if delta <= 0.0:
                raise InvalidArgumentError("--keys", "private", "need δ > 0", "give --delta, or public keys")
            if most > MOST_PARTITIONS:
                reason = f"are too many for private keys: at most {MOST_PARTITIONS}"
                raise InvalidArgumentError("groups", most, reason, "give --most-groups")
            selection = PartitionSelection.calibrated(
                epsilon=part * epsilon, delta=delta * _MOST_OF_DELTA, partitions=most, adjacency=adjacency
            )
            rest = (1.0 - part) * epsilon, 0.0
        noise = MomentNoise.calibrated(asked, epsilon=rest[0], delta=rest[1], rows=rows, adjacency=adjacency)
        return cls(
            by=tuple(by),
            keys=None if keys is None else _public(keys, len(by)),
            noise=noise,
            selection=selection,
            person=person,
            kept=kept,
            missing=missing,
            adjacency=adjacency,
            failure=failure,
        )

    def graph(self) -> AccountantGraph:
        """Returns the graph of the release: the keys, if they are selected, and the noisy sums of the shown groups."""
        who = "records" if self.person is None else "people"
        graph = AccountantGraph(adjacency=self.adjacency, assumptions=self._assumptions()).source(who)
        if self.selection is not None:
            graph = graph.release("shown keys", self.selection.event(), reads=[who])
        return graph.release("noisy sums", self.noise.event(), reads=[who])

    def _assumptions(self) -> tuple[str, ...]:
        fixed = "the columns, bounds, public keys and all parameters were chosen without looking at the records"
        if self.person is None:
            unit = "what is protected is one record; a person with several of them needs --person"
        else:
            unit = f"all records of a person have the same text in the column {self.person!r}"
        return fixed, unit, str(self.missing)

    def estimand(self) -> str:
        """Returns what the answers are about, in words."""
        if self.person is None:
            return "all rows that have the values"
        limit = f"at most {self.kept.most} rows of each person"
        if self.kept.groups is not None:
            limit += f", in at most {self.kept.groups} groups"
        return f"{limit}, chosen by a hash of her own rows"

    def read(self, data: Table) -> Rows:
        """Returns the rows of a table; private.

        Raises:
            InvalidArgumentError: The table cannot be read; see ``read_rows``.
        """
        columns = [one.column for one in self.noise.measures if one.column]
        return read_rows("--data", data, by=self.by, numeric=columns, person=self.person, missing=self.missing)

    def release(self, rows: Rows, *, seed: int | None, ledger: DurableLedger | None) -> GroupedAnswers:
        """Returns the shown groups and their answers, to be published; a simulation of them with a ``seed``.

        Raises:
            HockeystickError: The ledger refuses; nothing was drawn.
        """
        source: Noise = ReleaseNoise() if seed is None else SimulationNoise(np.random.default_rng(seed))
        names = np.array([_SEPARATOR.join(key) for key in rows.keys], dtype=np.str_)
        keys, where = rows.keys, rows.where
        if self.keys is not None:
            place = {key: i for i, key in enumerate(self.keys)}
            mapped = np.array([place.get(key, len(self.keys) - 1) for key in keys], dtype=np.int64)
            where, keys = mapped[where], self.keys
            names = np.array([_SEPARATOR.join(key) for key in keys], dtype=np.str_)
        numbers, people = rows.numbers, np.arange(len(where))
        if rows.persons is not None:
            people = np.unique(np.array(rows.persons, dtype=np.str_), return_inverse=True)[1].reshape(-1)
            kept = self.kept(rows.persons, names[where]) if len(where) else np.zeros(0, dtype=np.bool_)
            where, numbers, people = where[kept], numbers[kept], people[kept]
        parts = [self.noise.event()] if self.selection is None else [self.selection.event(), self.noise.event()]
        return charged(
            compose(*parts),
            lambda: self._drawn(keys, where, numbers, people, source),
            source,
            ledger,
            None if ledger is None else "hockeystick group-by",
            adjacency=self.adjacency,
        )

    def _drawn(
        self, keys: tuple[Key, ...], where: IntArray, numbers: FloatArray, people: IntArray, source: Noise
    ) -> GroupedAnswers:
        shown = np.arange(len(keys))
        persons = None
        if self.selection is not None:
            pairs = np.unique(np.stack([where, people]), axis=1)
            counts = np.bincount(pairs[0], minlength=len(keys)).astype(np.int64)
            found = self.selection.release(counts, noise=source)
            shown = np.flatnonzero(found > 0)  # in the order of the keys' names, whichever are left out
            if self.selection.rule.counts:
                persons = found[shown]
        place = np.full(len(keys), -1)
        place[shown] = np.arange(len(shown))
        inside = place[where] >= 0
        if not len(shown):
            return GroupedAnswers(of=self, keys=(), persons=persons, answers={})
        exact = self.noise.exact(numbers[inside], place[where][inside], len(shown))
        noisy = self.noise.draw(exact, source)
        return GroupedAnswers(
            of=self,
            keys=tuple(keys[i] for i in shown),
            persons=persons,
            answers=self.noise.answers(noisy, self.failure),
        )


def _public(keys: Sequence[Key], columns: int) -> tuple[Key, ...]:
    found = tuple(tuple(key) for key in keys)
    if not found or len(found) > _MOST_KEYS:
        raise InvalidArgumentError("--keys", len(found), "is not a number of keys", f"give 1 to {_MOST_KEYS}")
    if any(len(key) != columns for key in found):
        raise InvalidArgumentError("--keys", columns, "has a key with another number of columns", "give all of --by")
    other = (OTHER,) * columns
    if len(set(found)) < len(found) or other in found:
        reason = f"has a key twice, or {OTHER}, which all other keys are called"
        raise InvalidArgumentError("--keys", "", reason, "give different keys")
    return (*found, other)


@frozen(kw_only=True, eq=False)
class GroupedAnswers:
    """The shown groups of a release and their answers.

    Attributes:
        of: The plan.
        keys: The keys of the shown groups; the last one of public keys is that of all others.
        persons: The noisy number of persons of each, at least the threshold and so too large on average; None where
            the selection publishes none.
        answers: By name, the estimates and both ends of their intervals, each of shape (groups,).
    """

    of: GroupBy
    keys: tuple[Key, ...]
    persons: IntArray | None
    answers: dict[str, tuple[FloatArray, FloatArray, FloatArray]]

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Returns the names of the columns, and rows: a group, an answer, its estimate, and the ends of its interval.

        What is not known is None.
        """
        rows: list[list[Any]] = []
        for i, key in enumerate(self.keys):
            if self.persons is not None:
                rows.append([*key, "persons", int(self.persons[i]), None, None])
            for name, parts in self.answers.items():
                rows.append([*key, name, *(None if np.isnan(part[i]) else float(part[i]) for part in parts)])
        return [*self.of.by, "answer", "estimate", "from", "to"], rows


def plan_content(plan: GroupBy, *, epsilon: float, delta: float) -> dict[str, Any]:
    """Returns the entries of a plan: its guarantee, its noise, and what the answers are about."""
    selection = plan.selection
    return {
        **certified_content(plan.graph().guarantee(), "group-by", epsilon=epsilon, delta=delta),
        "by": plan.by,
        "keys": "private" if plan.keys is None else len(plan.keys),
        "person": plan.person,
        "rows": None if plan.person is None else plan.kept.most,
        "most_groups": None if plan.person is None else plan.kept.groups,
        "estimand": plan.estimand(),
        "missing": str(plan.missing),
        "measures": measure_content(plan.noise),
        "noise": plan.noise.law,
        "scale": plan.noise.scale,
        "interval_failure": plan.failure,
        "selection": None
        if selection is None
        else {
            "rule": type(selection.rule).__name__ if not selection.rule.counts else f"{selection.rule.law} threshold",  # type: ignore[union-attr]
            "half": selection.half(),
            "partitions": selection.partitions,
        },
    }


def release_content(
    found: GroupedAnswers, *, epsilon: float, delta: float, seed: int | None, data: str
) -> dict[str, Any]:
    """Returns the entries of a release: the plan, and a row for each shown group."""
    heads, rows = found.table()
    return plan_content(found.of, epsilon=epsilon, delta=delta) | {
        **drawn_from(data, seed),
        "columns": heads,
        "answers": rows,
    }
