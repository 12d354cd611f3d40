"""Tests of digests of content: equal values have one in every process, different ones do not."""

from __future__ import annotations

import collections
import datetime
import decimal
import functools
import itertools
import os
import subprocess
import sys
from typing import Any

import attrs
import numpy as np
import pytest

import hockeystick as hs
from hockeystick.audits.drawing.digests import content_digest


@attrs.frozen
class Person:
    name: str
    tags: frozenset[str] = frozenset()


DISTINCT: list[Any] = [
    None, True, 1, 1.0, 1 + 0j, "1", b"1", (), [], {}, set(), frozenset(), [1], (1,), {1}, [[1]], [[], 1], [1, []],
    ["a", "b"], ["ab"], ["a, b"], ["', '"], {"a": 1, "b": 2}, {"b": 2, "a": 1}, [("a", 1)], 10**5000, [10**5000],
    -(10**5000), float("nan"), 0.0, -0.0, "\udc80", np.float64(1.0), np.arange(3), np.arange(3.0), np.arange(6)[::2],
    np.zeros((2, 3)), np.zeros((3, 2)), np.array([1, "a"], object), np.array([("a", 1)], [("x", "U1"), ("y", int)]),
    datetime.date(2020, 1, 2), decimal.Decimal("1"), range(1), range(2), int, len, itertools.chain, Person("a"),
    Person("b"), Person("a", frozenset("xy")), collections.Counter("aab"), hs.Claim(1.0), hs.Claim(1.0, 1e-6),
    hs.accounting.Adjacency.LOCAL, hs.accounting.Adjacency.REPLACE_ONE, functools.partial(int, base=2), "a".upper,
    np.random.default_rng(1), np.random.default_rng(2), [Person("a")], [[[[1.5]]]], [[[[1.25]]]],
]  # fmt: skip


def test_different_values_have_different_digests() -> None:
    found = [content_digest(value) for value in DISTINCT]
    assert len(set(found)) == len(found)
    assert content_digest(1, 2) != content_digest((1, 2)) != content_digest(1, (2,))


def test_equal_values_have_one_digest() -> None:
    for one, other in [
        ({"x", "y", "z"}, {"z", "y", "x"}),
        (np.arange(12).reshape(3, 4).T, np.arange(12).reshape(3, 4).T.copy()),
        ([Person("a")] * 2, [Person("a"), Person("a")]),  # a pickle tells these apart
        ([0.5, 2.5], [0.5, 2.5]),
        (np.random.default_rng(1), np.random.default_rng(1)),
    ]:
        assert content_digest(one) == content_digest(other)


def test_shared_parts_and_cycles_are_read_once() -> None:
    shared: list[Any] = [1]
    for _ in range(60):
        shared = [shared, shared]
    round_: list[Any] = [1]
    round_.append(round_)
    assert content_digest(shared) != content_digest(round_)


@pytest.mark.parametrize("value", [lambda: 0, (part for part in ""), {"f": lambda: 0}])
def test_what_no_other_process_could_find_has_none(value: Any) -> None:
    with pytest.raises(TypeError):
        content_digest(value)


def test_too_deep_values_have_none() -> None:
    deep: Any = Person("a")
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(RecursionError):
        content_digest(deep)


@pytest.mark.statistical
def test_the_digest_does_not_depend_on_the_hash_seed() -> None:
    code = (
        "import collections, numpy as np, hockeystick as hs\n"
        "from hockeystick.audits.drawing.digests import content_digest\n"
        "names = {f'name {i}' for i in range(50)}\n"
        "print(content_digest(names, [frozenset(names), {1: names}], np.array([names], object), hs.Claim(1.0)))"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1] and len(said[0]) > 60
