"""The zoo of the literature as cases of the catalogue: the benchmarks of published auditors.

Definitions follow the papers that are named. Inputs are the patterns of StatDP (Ding et al. 2018), which DP-Sniper
(Bichsel, Steffen, Bogunovic and Vechev 2021) uses too, so that results can be compared with published ones. Each case
is claimed at 0.1, as in those tables, and at 1, on the pattern with the largest exact loss. That loss is the case's
truth, the most that an audit of the pair can find; over all inputs the mechanism may lose more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.audits.catalogue.literature.histograms import LaplaceVector, TruncatedGeometric
from hockeystick.audits.catalogue.literature.noisy_max import ding_form
from hockeystick.audits.catalogue.literature.rappor import Rappor
from hockeystick.audits.catalogue.literature.sparse_vector import SparseVectorForm, lyu_form, numeric_form
from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.claims.claim import Claim

CLAIMS = (0.1, 1.0)
"""The claimed epsilons of the zoo."""

HALF_HALF = ([1.0] * 10, [2.0] * 5 + [0.0] * 5)
"""Ten queries: one half rises by 1, the other falls by 1."""
ONE_BELOW_REST_ABOVE = ([1.0] * 5, [0.0] + [2.0] * 4)
"""Five queries: one falls by 1, the others rise by 1."""
ONE_ENTRY = ([1.0] * 5, [2.0] + [1.0] * 4)
"""Five counts, of which one rises by 1."""

_LYU = "Lyu, Su & Li 2017, Alg. {}"
_DING = "Ding, Wang, Wang, Zhang & Kifer 2018, Alg. {}"
_WANG = "Wang, Ding, Wang, Kifer & Zhang 2019, {}"
_RAPPOR = "Erlingsson, Pihur & Korolova 2014, {}"
_QUADRATURE, _CLOSED, _ENUMERATED = "quadrature over the threshold's noise", "closed form", "enumeration"


@frozen(kw_only=True)
class SideBySide:
    """Several sparse vector algorithms on the same queries, with independent noise; all outputs are published."""

    forms: tuple[SparseVectorForm, ...]

    def __call__(self, queries: npt.ArrayLike, rng: np.random.Generator, runs: int) -> npt.NDArray[np.float64]:
        """Returns the outputs side by side, shape (runs, forms * queries)."""
        return np.concatenate([form(queries, rng, runs) for form in self.forms], axis=1).astype(np.float64)

    def log_likelihood_ratio(
        self, outputs: npt.NDArray[np.float64], first: npt.ArrayLike, second: npt.ArrayLike
    ) -> npt.NDArray[np.float64]:
        """Returns ln(P/Q) of each output: those of independent parts add."""
        parts = np.split(outputs, len(self.forms), axis=1)
        ratios = [form.log_likelihood_ratio(part, first, second) for form, part in zip(self.forms, parts, strict=True)]
        return np.asarray(np.sum(ratios, axis=0))

    def largest_losses(self, first: npt.ArrayLike, second: npt.ArrayLike) -> tuple[float, float]:
        """Returns the suprema of ln(P/Q) and ln(Q/P): those of independent outputs add."""
        losses = [form.largest_losses(first, second) for form in self.forms]
        return sum(loss[0] for loss in losses), sum(loss[1] for loss in losses)


def zoo_cases() -> Iterator[Case]:
    """Yields the cases of the zoo."""
    for epsilon in CLAIMS:
        yield from _noisy_numbers(epsilon)
        yield from _noisy_max(epsilon)
        yield from _sparse_vector(epsilon)
    yield from _rappor()


def _case(
    name: str,
    build: Callable[[], Subject],
    source: str,
    oracle: str,
    samples: int | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Case:
    """Returns a case of the zoo; a broken one if ``samples`` is given."""
    more = {"source": source, "oracle": oracle, "options": options}
    return Case.of(f"zoo/{name}", build, samples, correct=200_000, **more)


def _pure(target: Any, epsilon: float, pair: Sequence[Any]) -> Subject:
    """Returns a target that has ``epsilon(first, second)``, with the claim that it is ``epsilon``-DP."""
    return Subject(
        target=target, neighbours=(pair[0], pair[1]), claim=Claim(epsilon), truth=target.epsilon(pair[0], pair[1])
    )


def _svt(target: SparseVectorForm | SideBySide, epsilon: float) -> Subject:
    truth = max(target.largest_losses(*HALF_HALF))
    return Subject(target=target, neighbours=HALF_HALF, claim=Claim(epsilon), truth=truth)


def _ratio(target: SparseVectorForm | SideBySide, outputs: Any) -> npt.NDArray[np.float64]:
    return target.log_likelihood_ratio(outputs, *HALF_HALF)


def _noisy_numbers(epsilon: float) -> Iterator[Case]:
    small = epsilon < 0.5
    tag = f"@{epsilon:g}"

    def vector(name: str, source: str, pair: Sequence[Any], samples: int | None = None, **form: Any) -> Case:
        build = partial(_pure, LaplaceVector(**form), epsilon, pair)
        return _case(name + tag, build, source, _CLOSED, samples)

    scale, everywhere = 1 / epsilon, ([1.0] * 10, [0.0] * 10)
    yield vector("laplace", "Dwork, McSherry, Nissim & Smith 2006", (0.0, 1.0), scale=scale)
    yield vector("noisy-sum", "Dwork, McSherry, Nissim & Smith 2006", ONE_ENTRY, scale=scale, total=True)
    yield vector("noisy-hist-1", _DING.format(9), ONE_ENTRY, scale=scale)
    # The scale is epsilon in place of 1/epsilon, which is the same at 1.
    yield vector("noisy-hist-2", _DING.format(10), ONE_ENTRY, 1_000 if small else None, scale=epsilon)
    yield vector(
        "laplace-parallel", "Bichsel, Steffen, Bogunovic & Vechev 2021", (0.0, 1.0), scale=20 * scale, copies=20
    )
    first_entry = ([1.0] * 10, [0.0] + [1.0] * 9)
    yield vector("prefix-sum", _WANG.format("PrefixSum"), first_entry, scale=scale, running=True)
    # Right for one entry that changes, and claimed where all ten do.
    yield vector(
        "prefix-sum[every entry]",
        _WANG.format("PrefixSum"),
        everywhere,
        32_000 if small else 1_000,
        scale=scale,
        running=True,
    )
    geometric = "Ghosh, Roughgarden & Sundararajan 2009; Balcer & Vadhan 2018, Alg. 4.8"
    for natural, name in ((False, "truncated-geometric"), (True, "truncated-geometric[natural logarithm]")):
        target = TruncatedGeometric.stated(epsilon, natural=natural)
        wrong = 1_000_000 if natural and small else None  # at 1 both logarithms round up to the same whole number
        yield _case(name + tag, partial(_pure, target, epsilon, (2, 3)), geometric, _ENUMERATED, wrong)


def _noisy_max(epsilon: float) -> Iterator[Case]:
    samples = {3: {0.1: 512_000, 1.0: 8_000}, 4: {0.1: 512_000, 1.0: 8_000}}
    all_above = ([1.0] * 5, [2.0] * 5)
    for number in (1, 2, 3, 4):
        pair = ONE_BELOW_REST_ABOVE if number < 3 else all_above
        build = partial(_pure, ding_form(number, epsilon), epsilon, pair)
        oracle = "quadrature over the value" if number < 3 else _CLOSED
        wrong = samples.get(number, {}).get(epsilon)
        yield _case(f"noisy-max-{number}@{epsilon:g}", build, _DING.format(number + 4), oracle, wrong)


_BROKEN_FORMS: dict[int, dict[float, int]] = {
    3: {0.1: 4_000_000, 1.0: 128_000},
    4: {0.1: 2_000_000, 1.0: 64_000},
    5: {0.1: 4_000, 1.0: 1_000},
    6: {0.1: 500_000, 1.0: 16_000},
    34: {0.1: 2_000_000, 1.0: 128_000},
}
"""Samples, by form and claim."""


def _sparse_vector(epsilon: float) -> Iterator[Case]:
    def case(name: str, target: SparseVectorForm | SideBySide, source: str, samples: int | None = None) -> Case:
        # At 0.1 a search among all outputs takes several times as many samples as the likelihood ratio.
        known = {"statistic": partial(_ratio, target)} if samples is not None and samples >= 250_000 else {}
        return _case(f"{name}@{epsilon:g}", partial(_svt, target, epsilon), source, _QUADRATURE, samples, known)

    for number in (1, 2, 3, 4, 5, 6):
        # The published rows put the threshold of form 1 at 1/2 and all others at 1.
        form = lyu_form(number, epsilon, threshold=0.5 if number == 1 else 1.0)
        yield case(f"svt-{number}", form, _LYU.format(number), _BROKEN_FORMS.get(number, {}).get(epsilon))
    yield case("numerical-svt", numeric_form(epsilon), _WANG.format("NumSVT"))
    both = SideBySide(forms=(lyu_form(3, epsilon, halts_after=2), lyu_form(4, epsilon, halts_after=2)))
    yield case("svt-34-parallel", both, "Bichsel, Steffen, Bogunovic & Vechev 2021", _BROKEN_FORMS[34][epsilon])


def _rappor() -> Iterator[Case]:
    forms = {
        "rappor": (Rappor(bits=20, replaced=0.75, one=0.55, zero=0.45), _RAPPOR.format("steps 1-3, Thm 2")),
        "one-time-rappor": (Rappor(bits=20, replaced=0.95), _RAPPOR.format("steps 1-2, Thm 1")),
    }
    apart = (0, 1, 2, 3), (4, 5, 6, 7)  # all bits differ
    # What murmur hashes make of the values 0 and 1 in the published rows: both have a collision.
    published = (0, 11, 18), (3, 10, 13)
    for name, (form, source) in forms.items():
        stated = form.epsilon(*apart)
        wrong = {"rappor": 1_000_000, "one-time-rappor": 256_000}[name]
        yield _case(name, partial(_pure, form, stated, apart), source, _CLOSED)
        yield _case(f"{name}[published values]", partial(_pure, form, stated, published), source, _CLOSED)
        # The Bloom filters of two values differ in up to 2h bits, not in h.
        yield _case(f"{name}[h bits charged]", partial(_pure, form, stated / 2, apart), source, _CLOSED, wrong)
