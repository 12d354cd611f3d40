"""Tests of the frame of pictures: colours that everybody can tell apart, axes, and the optional package."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.optional_packages import MissingExtraError
from hockeystick.accounting.pictures import COLOURS, DASHES, axes_of, line

# Linear RGB as seen without one kind of cone, from Machado, Oliveira & Fernandes (2009), severity 1.
SEEN = {
    "all cones": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.9505, 1.0, 1.089])


def linear(colour: str) -> np.ndarray:
    part = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.asarray(np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4))


def lab(rgb: np.ndarray) -> np.ndarray:
    ratio = TO_XYZ @ np.clip(rgb, 0.0, 1.0) / WHITE
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(one: str, other: str, seen: str) -> float:
    """CIE 1976; about 2.3 is just noticeable."""
    matrix = np.asarray(SEEN[seen])
    return float(np.linalg.norm(lab(matrix @ linear(one)) - lab(matrix @ linear(other))))


@pytest.mark.parametrize("seen", SEEN)
def test_any_two_colours_are_told_apart(seen: str) -> None:
    assert min(distance(a, b, seen) for a, b in itertools.combinations(COLOURS, 2)) > 15.0


def test_red_and_green_are_not_told_apart_so_that_the_check_can_fail() -> None:
    assert distance("#d9622b", "#b08d00", "no green") < 15.0 < distance("#d9622b", "#b08d00", "all cones")


@pytest.mark.parametrize("colour", COLOURS)
def test_a_line_is_legible_on_white_and_on_black(colour: str) -> None:
    light = float(linear(colour) @ [0.2126, 0.7152, 0.0722])

    assert 1.05 / (light + 0.05) >= 3.0 and (light + 0.05) / 0.05 >= 3.0


def test_lines_differ_by_dashes_too() -> None:
    axes = axes_of(Figure().subplots())
    for number in range(len(DASHES)):
        line(axes, number, [0.0, 1.0], [0.0, 1.0], str(number))

    looks = {(one.get_color(), str(one.get_linestyle()), str(one._unscaled_dash_pattern)) for one in axes.lines}  # type: ignore[attr-defined]
    assert len(looks) == len(DASHES)


def test_given_axes_are_used_and_other_things_refused() -> None:
    axes = Figure().subplots()

    assert axes_of(axes) is axes
    with pytest.raises(InvalidArgumentError, match="ax=3: are not axes of matplotlib"):
        axes_of(3)


def test_without_matplotlib_the_error_has_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'hockeystick\[report\]'"):
        axes_of(None)
