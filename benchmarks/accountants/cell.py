"""One cell of the accounting benchmark: one item by one accountant, in a process of its own.

    python benchmarks/accountants/cell.py ITEM METHOD

takes an item of ``work.py`` as JSON and prints a JSON line: the value, the CPU seconds of this process
without imports, and its peak memory. What an accountant imports or builds once is warmed up by a small unrelated
computation. It imports nothing of this folder: a peer installs a package of the same name.
"""

from __future__ import annotations

import json
import logging
import math
import resource
import sys
import time
import types
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

Item = types.SimpleNamespace
"""One row of the table, as ``work.Item`` has it."""
Compute = Callable[[Item], float | tuple[float, float]]
_WARM_UP = (
    Item(kind="epsilon", events=(("gauss", 3.3, 2), ("laplace", 4.4, 3), ("sampled", 0.03, 2.2, 5)), delta=1e-5),
    Item(kind="epsilon", events=(("pure", 0.2, 3),), delta=1e-5),
)


_ORDER = 8.5


class NotApplicable(Exception):
    """The accountant has no such event or question."""


# ---------------------------------------------------------------- hockeystick


def _our_event(item: Item) -> Any:
    hs = import_module("hockeystick.accounting")
    makers = {
        "gauss": hs.Gaussian,
        "laplace": hs.Laplace,
        "pure": hs.PureDP,
        "sampled": lambda q, sigma: hs.PoissonSampled(q, hs.Gaussian(sigma)),
    }
    if item.kind == "wor":
        return hs.compose((hs.SampledWithoutReplacement(10_000, 100, hs.Gaussian(1.0)), 1000))
    if item.kind == "allocation":
        return hs.RandomAllocation(1000, 1, hs.Gaussian(1.0))
    event = hs.compose(*((makers[str(kind)](*parameters), int(count)) for kind, *parameters, count in item.events))
    return event.at(2) if item.kind == "group" else event


def ours(item: Item) -> float:
    """The least of all sound methods."""
    hs = import_module("hockeystick.accounting")
    if item.kind == "calibrate":
        target = hs.EpsilonDelta(1.0, item.delta)
        noisy = lambda s: hs.compose((hs.PoissonSampled(0.01, hs.Gaussian(s)), 1000))  # noqa: E731
        return float(hs.calibrate(noisy, target).value)
    if item.kind == "divergence":
        return float(_our_event(item).rdp(np.array([_ORDER]))[0])
    return float(hs.epsilon(_our_event(item), item.delta, method="rdp" if item.kind == "rdp" else None).upper)


def reference(item: Item) -> tuple[float, float]:
    """Contour inversion, from below and above; for σ, its root."""
    contour, hs = (
        import_module("hockeystick.accounting.engines.contour_integral"),
        import_module("hockeystick.accounting"),
    )
    if item.kind in ("wor", "rdp", "divergence", "allocation"):
        raise NotApplicable("no reference")
    if item.kind == "calibrate":
        optimize = import_module("scipy.optimize")

        def excess(sigma: float, end: int) -> float:
            event = hs.compose((hs.PoissonSampled(0.01, hs.Gaussian(sigma)), 1000))
            return math.log(contour.delta(event, 1.0)[end] / item.delta)

        roots = (optimize.brentq(excess, 0.6, 3.0, args=(end,), xtol=1e-12) for end in (0, 1))
        return next(roots) * (1 - 1e-10), next(roots) * (1 + 1e-10)
    event = _our_event(item)
    return contour.epsilon(event, item.delta, upper=False), contour.epsilon(event, item.delta)


def grid(item: Item) -> tuple[float, float]:
    """Our grid engine alone, from below and above."""
    hs = import_module("hockeystick.accounting")
    if item.kind not in ("epsilon", "group"):
        raise NotApplicable(item.kind)
    bracket = hs.epsilon(_our_event(item), item.delta, bracket=True, method="pld")
    return bracket.lower, bracket.upper


# ---------------------------------------------------------------- dp-accounting


def _dp_event(item: Item) -> Any:
    d = import_module("dp_accounting")
    if item.kind == "wor":
        return d.SelfComposedDpEvent(d.SampledWithoutReplacementDpEvent(10_000, 100, d.GaussianDpEvent(1.0)), 1000)
    found = []
    for kind, *parameters, count in item.events:
        if item.kind == "group":
            q, sigma = map(float, parameters)
            weights = [(1 - q) ** 2, 2 * q * (1 - q), q * q]
            event = d.dp_event.MixtureOfGaussiansDpEvent(sigma, [0.0, 1.0, 2.0], weights)
        elif kind == "gauss":
            event = d.GaussianDpEvent(float(parameters[0]))
        elif kind == "laplace":
            event = d.LaplaceDpEvent(float(parameters[0]))
        elif kind == "sampled":
            event = d.PoissonSampledDpEvent(float(parameters[0]), d.GaussianDpEvent(float(parameters[1])))
        else:
            raise NotApplicable("pure ε next to other events")
        found.append(d.SelfComposedDpEvent(event, int(count)))
    return d.ComposedDpEvent(found)


def _dp_accounting(item: Item, pld: bool) -> float:
    d = import_module("dp_accounting")
    relation = d.NeighboringRelation.ADD_OR_REMOVE_ONE
    if item.kind == "calibrate":
        noisy = lambda s: d.SelfComposedDpEvent(d.PoissonSampledDpEvent(0.01, d.GaussianDpEvent(s)), 1000)  # noqa: E731
        accountant = d.pld.PLDAccountant if pld else d.rdp.RdpAccountant
        return float(d.calibrate_dp_mechanism(accountant, noisy, 1.0, item.delta, d.LowerEndpointAndGuess(0.3, 1.0)))
    if item.kind in ("rdp", "divergence") and pld:
        raise NotApplicable(item.kind)
    if item.kind == "divergence":
        return float(d.rdp.RdpAccountant([_ORDER]).compose(_dp_event(item))._rdp[0])
    if item.kind == "wor":
        relation = d.NeighboringRelation.REPLACE_ONE
    if all(kind == "pure" for kind, *_ in item.events) and item.kind == "epsilon":
        ((_, epsilon, count),) = item.events
        if not pld:
            event = d.SelfComposedDpEvent(
                d.RandomizedResponseDpEvent(2 / (1 + math.exp(float(epsilon))), 2), int(count)
            )
            accountant = d.rdp.RdpAccountant(neighboring_relation=d.NeighboringRelation.REPLACE_ONE)
            return float(accountant.compose(event).get_epsilon(item.delta))
        # PLDAccountant drops the count of this event; the distribution itself is asked.
        pl, common = (import_module(f"dp_accounting.pld.{x}") for x in ("privacy_loss_distribution", "common"))
        law = pl.from_privacy_parameters(common.DifferentialPrivacyParameters(epsilon, 0), 1e-4)
        return float(law.self_compose(int(count)).get_epsilon_for_delta(item.delta))
    accountant = (d.pld.PLDAccountant if pld else d.rdp.RdpAccountant)(neighboring_relation=relation)
    event = _dp_event(item)
    if not accountant.supports(event):
        raise NotApplicable("unsupported event")
    return float(accountant.compose(event).get_epsilon(item.delta))


def dpa_rdp(item: Item) -> float:
    """dp-accounting's RdpAccountant, default orders."""
    return _dp_accounting(item, False)


def dpa_pld(item: Item) -> float:
    """dp-accounting's PLDAccountant, interval 1e-4."""
    return _dp_accounting(item, True)


# ---------------------------------------------------------------- prv_accountant, Opacus, autodp


def _only_epsilon(item: Item) -> None:
    if item.kind not in ("epsilon", "second"):
        raise NotApplicable(item.kind)


def prv(item: Item) -> float:
    """prv_accountant: the upper end at an error of 0.01 in ε and δ/1000 in δ."""
    _only_epsilon(item)
    p = import_module("prv_accountant")
    pure = import_module("prv_accountant.privacy_random_variables").PureDPMechanism

    def variable(kind: str, *x: float) -> Any:
        if kind == "sampled" and x[0] < 1.0:
            return p.PoissonSubsampledGaussianMechanism(sampling_probability=x[0], noise_multiplier=x[1])
        if kind in ("gauss", "sampled"):
            return p.GaussianMechanism(x[-1])
        return p.LaplaceMechanism(1 / x[0]) if kind == "laplace" else pure(x[0])

    counts = [int(count) for *_, count in item.events]
    accountant = p.PRVAccountant(
        prvs=[variable(str(kind), *map(float, x)) for kind, *x, _ in item.events],
        max_self_compositions=counts,
        eps_error=0.01,
        delta_error=item.delta / 1000,
    )
    return float(accountant.compute_epsilon(item.delta, counts)[2])


def _opacus(item: Item, name: str) -> float:
    if "opacus" not in sys.modules:  # its root and its optimizers import torch, which its accountants have no use for
        spec = next(path for path in map(_opacus_folder, sys.path) if path)
        root, optimizers = types.ModuleType("opacus"), types.ModuleType("opacus.optimizers")
        root.__path__ = [spec]
        optimizers.DPOptimizer = object  # type: ignore[attr-defined]
        sys.modules["opacus"], sys.modules["opacus.optimizers"] = root, optimizers
    accountants = import_module("opacus.accountants")
    if item.kind == "calibrate":
        utils = import_module("opacus.accountants.utils")
        return float(
            utils.get_noise_multiplier(
                target_epsilon=1.0,
                target_delta=item.delta,
                sample_rate=0.01,
                steps=1000,
                accountant=name,
                epsilon_tolerance=1e-4,
            )
        )
    if item.kind == "divergence" and name == "rdp":
        analysis = import_module("opacus.accountants.analysis.rdp")
        ((_, q, sigma, count),) = item.events
        return float(analysis.compute_rdp(q=q, noise_multiplier=sigma, steps=count, orders=_ORDER))
    if item.kind != "rdp" or name != "rdp":
        _only_epsilon(item)
    if any(kind not in ("gauss", "sampled") for kind, *_ in item.events):
        raise NotApplicable("DP-SGD only")
    accountant = {
        "prv": accountants.PRVAccountant,
        "rdp": accountants.RDPAccountant,
        "gdp": accountants.GaussianAccountant,
    }[name]()
    accountant.history = [
        (float(x[-1]), float(x[0]) if kind == "sampled" else 1.0, int(n)) for kind, *x, n in item.events
    ]
    return float(accountant.get_epsilon(item.delta))


def _opacus_folder(path: str) -> str:
    from pathlib import Path

    folder = Path(path) / "opacus" / "accountants"
    return str(folder.parent) if folder.is_dir() else ""


def opacus_prv(item: Item) -> float:
    """Opacus' PRVAccountant."""
    return _opacus(item, "prv")


def opacus_rdp(item: Item) -> float:
    """Opacus' RDPAccountant."""
    return _opacus(item, "rdp")


def opacus_gdp(item: Item) -> float:
    """Opacus' GaussianAccountant, an approximation by a central limit."""
    return _opacus(item, "gdp")


def autodp_rdp(item: Item) -> float:
    """autodp: composition of Rényi curves, orders optimised continuously."""
    if item.kind not in ("epsilon", "second", "rdp", "wor", "divergence"):
        raise NotApplicable(item.kind)
    zoo, transform = import_module("autodp.mechanism_zoo"), import_module("autodp.transformer_zoo")
    if item.kind == "wor":
        noise = zoo.GaussianMechanism(1.0)
        noise.neighboring = "replace_one"
        sampled = transform.AmplificationBySampling(PoissonSampling=False)(noise, 0.01, improved_bound_flag=True)
        return float(transform.Composition()([sampled], [1000]).get_approxDP(item.delta))

    def mechanism(kind: str, *x: float) -> Any:
        if kind == "sampled" and x[0] < 1.0:
            return transform.AmplificationBySampling()(zoo.GaussianMechanism(x[1]), x[0], improved_bound_flag=True)
        if kind in ("gauss", "sampled"):
            return zoo.GaussianMechanism(x[-1])
        if kind == "laplace":
            return zoo.LaplaceMechanism(x[0])
        return zoo.PureDP_Mechanism(x[0])

    if item.kind == "divergence":
        ((kind, *x, _),) = item.events
        return float(mechanism(str(kind), *map(float, x)).RenyiDP(_ORDER))
    mechanisms = [mechanism(str(kind), *map(float, x)) for kind, *x, _ in item.events]
    return float(transform.Composition()(mechanisms, [int(n) for *_, n in item.events]).get_approxDP(item.delta))


METHODS: dict[str, Compute] = {
    "ours": ours,
    "reference": reference,
    "grid": grid,
    "dpa_rdp": dpa_rdp,
    "dpa_pld": dpa_pld,
    "prv": prv,
    "opacus_prv": opacus_prv,
    "opacus_rdp": opacus_rdp,
    "opacus_gdp": opacus_gdp,
    "autodp_rdp": autodp_rdp,
}


def main() -> None:
    """Prints the cell's result."""
    item, compute = Item(**json.loads(sys.argv[1])), METHODS[sys.argv[2]]
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    logging.disable(logging.WARNING)
    for warm in _WARM_UP:
        try:
            compute(warm)
        except Exception:  # peers fail in many ways; the item itself will show it
            continue
        break
    try:
        before = _memory()
        if item.kind == "second":
            compute(item)
        start = time.process_time()
        value = compute(item)
        seconds = time.process_time() - start
    except NotApplicable as reason:
        print(json.dumps({"skip": str(reason)}))
        return
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"[:150]}))
        return
    low, high = value if isinstance(value, tuple) else (None, value)
    print(json.dumps({"value": high, "lower": low, "cpu": seconds, "mb": _memory(), "mb_before": before}))


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
