"""The generator that a recorded run is given: draws of additive noise are lazy, all others are calls of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NoReturn

import numpy as np

from hockeystick.audits.replay.noisy import Noisy, Term
from hockeystick.audits.replay.queries import OtherDraw
from hockeystick.audits.replay.tape import NotCoveredError, Tape
from hockeystick.audits.replay.values import leaves, strip

_METHODS = (
    "beta",
    "binomial",
    "bytes",
    "chisquare",
    "dirichlet",
    "exponential",
    "f",
    "gamma",
    "geometric",
    "hypergeometric",
    "integers",
    "logistic",
    "lognormal",
    "logseries",
    "multinomial",
    "multivariate_hypergeometric",
    "multivariate_normal",
    "negative_binomial",
    "noncentral_chisquare",
    "noncentral_f",
    "pareto",
    "poisson",
    "power",
    "random",
    "rayleigh",
    "standard_cauchy",
    "standard_exponential",
    "standard_gamma",
    "standard_t",
    "triangular",
    "uniform",
    "vonmises",
    "wald",
    "weibull",
    "zipf",
)


class RecordingGenerator(np.random.Generator):
    """A numpy generator whose draws are on a tape."""

    def __init__(self, tape: Tape) -> None:
        super().__init__(np.random.PCG64(0))  # never used: every method below draws from the tape
        self._tape = tape

    def __reduce__(self) -> NoReturn:
        raise NotCoveredError("the generator is copied or sent to another process: draw where it was given")

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise NotCoveredError("the generator is copied: a copy would repeat its noise")

    @property
    def bit_generator(self) -> NoReturn:
        raise NotCoveredError("rng.bit_generator is used: draw with the generator's own methods")

    def spawn(self, n_children: int) -> list[np.random.Generator]:
        return [RecordingGenerator(self._tape) for _ in range(n_children)]

    # Additive noise --------------------------------------------------------------------------------------------------

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self._noise("laplace", loc, scale, size)

    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self._noise("gumbel", loc, scale, size)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self._noise("gaussian", loc, scale, size)

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        if out is not None or np.dtype(dtype) != np.float64:
            raise NotCoveredError("rng.standard_normal with out= or another dtype: draw 64-bit numbers, without out=")
        return self._noise("gaussian", 0.0, 1.0, size)

    def _noise(self, kind: Literal["laplace", "gaussian", "gumbel"], loc: Any, scale: Any, size: Any) -> Any:
        scales = np.asarray(scale, dtype=np.float64)
        if not (np.isfinite(scales) & (scales >= 0)).all():
            raise ValueError("scale < 0")  # as numpy has it
        given = np.shape(loc) if not isinstance(loc, Noisy) else loc.shape
        shape = np.broadcast_shapes(given, scales.shape) if size is None else _shape(size)
        draws = self._tape.draw(kind, int(np.prod(shape, dtype=np.int64))).reshape(shape)
        drawn = Noisy(self._tape, np.zeros(shape), (Term(np.broadcast_to(scales, shape).copy(), draws),))
        if isinstance(loc, Noisy) or np.any(np.asarray(loc) != 0.0):
            return drawn + loc
        return drawn

    # Other draws -----------------------------------------------------------------------------------------------------

    def permutation(self, x: Any, axis: int = 0) -> Any:
        if isinstance(x, (int, np.integer)):
            return self._other("permutation", (int(x),), {})
        values = np.asarray(x)
        return np.take(values, self._other("permutation", (values.shape[axis],), {}), axis=axis)

    def permuted(self, x: Any, *, axis: Any = None, out: Any = None) -> NoReturn:
        raise NotCoveredError("rng.permuted is not followed: use rng.permutation")

    def shuffle(self, x: Any, axis: int = 0) -> None:
        if not isinstance(x, (list, np.ndarray)):
            raise NotCoveredError("rng.shuffle of a value that is neither a list nor an array: use rng.permutation")
        size = x.shape[axis] if isinstance(x, np.ndarray) else len(x)
        order = self._other("permutation", (size,), {})
        x[:] = np.take(x, order, axis=axis) if isinstance(x, np.ndarray) else [x[i] for i in order]

    def choice(
        self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True
    ) -> Any:
        named = {"size": size, "replace": replace, "p": p, "shuffle": shuffle}
        if isinstance(a, (int, np.integer)):
            return self._other("choice", (int(a),), named)
        values = np.asarray(a)
        found = self._other("choice", (values.shape[axis],), named)
        taken = np.take(values, found, axis=axis)
        return taken.item() if np.ndim(taken) == 0 and taken.dtype.kind == "U" else taken

    def _other(self, method: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        given, named = strip(given, Noisy._see), strip(named, Noisy._see)
        for name in ("out", "dtype"):
            given_one = named.get(name)
            if given_one is not None and (name == "out" or np.dtype(given_one) == np.float32):
                raise NotCoveredError(f"rng.{method} with {name}=: draw 64-bit numbers, without out=")
        arguments = tuple(leaves([given, sorted(named.items())]))
        tape = self._tape
        answer = tape.ask(OtherDraw(method, arguments), lambda: getattr(tape.rng, method)(*given, **named))
        return answer.copy() if isinstance(answer, np.ndarray) else answer


def _shape(size: Any) -> tuple[int, ...]:
    return (int(size),) if isinstance(size, (int, np.integer)) else tuple(int(n) for n in size)


def _method(name: str) -> Callable[..., Any]:
    def call(self: RecordingGenerator, *given: Any, **named: Any) -> Any:
        return self._other(name, given, named)

    call.__name__ = name
    call.__doc__ = f"Records a draw of ``rng.{name}``."
    return call


for _name in _METHODS:
    setattr(RecordingGenerator, _name, _method(_name))
