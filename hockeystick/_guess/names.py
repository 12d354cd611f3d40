"""Wrong attributes: a name that a package does not have is refused with the one that was probably meant.

The faces of the packages are lazy, so a name is looked for in their stubs alone, and nothing is imported for it.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from lazy_loader import attach_stub

on_first_use: list[Callable[[Any], Any]] = []
"""Changes of public functions and classes on their first use, by layers above this one."""

_ROOT = Path(__file__).parents[1]
_NAMES = re.compile(r"^(?:from \S+ import|   ) (\w+) as \1,?$", re.MULTILINE)
_SIMILAR = 0.75  # of difflib's ratio
_FACES = (
    *("", "accounting", "mechanisms", "audits", "learners", "learners.lazy", "learners.federated"),
    *("learners.divergence", "learners.distribution", "learners.smoothed", "learners.experts", "learners.network"),
    "estimators",
)

# The words of other libraries and of the literature, in lower case and without underscores, and ours.
_SYNONYMS = {
    "events.PoissonSampled": "poissonsubsampled subsampledgaussian sampledgaussian subsampled poissonsampling",
    "events.SampledWithoutReplacement": "fixedbatch fixedbatchsampled withoutreplacement",
    "events.RenyiCurve": "rdp renyi renyidp rdpcurve",
    "events.GaussianDP": "gdp mu mugdp",
    "events.TradeOff": "fdp tradeofffunction tradeoffcurve",
    "events.LossDistribution": "pld privacylossdistribution plds",
    "events.ApproximateDP": "epsilondeltadp approxdp approximatedp",
    "events.Composed": "repeat repeated selfcomposed sequential composition",
    "events.NonPrivate": "nonprivatedp notprivate",
    "events.BoundedRange": "exponential boundedrangedp",
    "events.Shuffled": "shuffle shuffler shufflemodel",
    "events.RandomAllocation": "allocation ballsinbins ballsandbins",
    "mechanisms.Gaussian": "gaussianmechanism gaussiannoise makegaussian",
    "mechanisms.Laplace": "laplacemechanism laplacenoise makelaplace",
    "mechanisms.DiscreteLaplace": "geometric geometricmechanism twosidedgeometric",
    "mechanisms.ExponentialMechanism": "exponential exponentialmechanism",
    "mechanisms.SparseVector": "svt sparsevectortechnique",
    "mechanisms.BoundedHistogram": "histogram privatehistogram noisyhistogram dphistogram noisycounts",
    "mechanisms.NoisyMax": "reportnoisymax noisyargmax noisymax",
    "Accountant": "rdpaccountant pldaccountant prvaccountant gaussianaccountant momentsaccountant privacyaccountant",
    "DPSGD": "dpsgdepsilon dpsgdaccountant computedpsgdprivacy getnoisemultiplier noisemultiplier dpadam dpsgdnoise",
    "epsilon": "getepsilon computeepsilon eps getprivacyspent",
    "delta": "getdelta computedelta",
    "calibrate": "calibratenoise calibratedpmechanism findnoise noisefor",
    "guarantee": "certify certificate account getguarantee",
    "compose": "composition composedp adaptivecomposition",
    "audit": "privacyaudit test testprivacy dptest auditmechanism check",
    "audits.sequential_audit": "auditsequential auditsequentially onlineaudit",
    "audits.audit_with_search": "searchaudit auditsearch auditsearchneighbours findcounterexample statdp dpsniper",
    "audits.audit_membership": "membershipinference mia membershipaudit lira auditmodel",
    "audits.one_run_verdict": "onerun onerunaudit auditonerun auditcanaries steinke",
    "audits.clopper_pearson": "clopperpearsoninterval binomialinterval",
    "targets.read_recorded": "auditrecorded recordedoutputs fromfile readoutputs",
    "targets.Command": "auditcommand program shellcommand executable",
    "targets.WebService": "auditurl url http endpoint httptarget",
    "targets.SqlQuery": "auditsql sql duckdb",
    "Adjacency": "neighbors neighbours neighboringrelation neighbouringrelation relation adjacencyrelation",
    "accounting.PrivacyFilter": "filter filters privacyfilters",
    "accounting.Ledger": "budget privacybudget budgetledger privacyledger",
    "accounting.from_dp_event": "fromdpaccounting fromdpevent",
}


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Returns the ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose stub lists its names.

    It is ``lazy_loader.attach_stub`` whose ``AttributeError`` says what may have been meant. Each name passes through
    ``on_first_use``.
    """
    load, listed, names = attach_stub(package, file)

    def get(name: str) -> Any:
        if name not in names:
            raise unknown(package, name)
        found = load(name)
        for change in on_first_use:
            found = change(found)
        vars(sys.modules[package])[name] = found
        return found

    return get, listed, names


def unknown(package: str, name: str) -> AttributeError:
    """Returns the error of a package that has no such attribute, with a suggestion if there is one."""
    text = f"module {package!r} has no attribute {name!r}"
    meant = () if name.startswith("__") else suggestions(name, package.partition(".")[2])
    hint = " or ".join(f"hockeystick.{path}" for path in meant)
    return AttributeError(f"{text}; did you mean {hint}?" if meant else text)


@functools.lru_cache(64)  # who looks for test fixtures or mocks asks each package for the same names again and again
def suggestions(name: str, face: str = "") -> tuple[str, ...]:
    """Returns up to two dotted names below ``hockeystick`` that may be meant, those of the package ``face`` first.

    The same word in any package comes before a synonym, and a synonym before a similar word.
    """
    index, guess = _index(), _plain(name)
    found = list(index.get(guess, ())) or list(_synonyms().get(guess, []))
    if not found:
        own = {word for word, paths in index.items() if any(path.rpartition(".")[0] == face for path in paths)}
        close = close_to(guess, own) or close_to(guess, [*index, *_synonyms()])
        found = [path for word in close for path in (*index.get(word, ()), *_synonyms().get(word, ()))]
    found.sort(key=lambda path: (path.rpartition(".")[0] != face, path.rpartition(".")[2] != name))
    return tuple(found[: 1 if found and found[0].rpartition(".")[0] == face else 2])


@functools.cache
def _index() -> dict[str, tuple[str, ...]]:
    """The public names, without case and underscores, and the paths below ``hockeystick`` where they are found."""
    found: dict[str, list[str]] = {}
    for face in _FACES:
        stub = _ROOT.joinpath(*face.split(".") if face else ()) / "__init__.pyi"
        if not stub.exists():  # a clone without links: the parts are beside this folder
            stub = _ROOT.parent.joinpath(*face.split(".")) / "__init__.pyi"
        names = _NAMES.findall(stub.read_text(encoding="utf-8"))
        events = (stub.parent / "events" / "catalogue.py").read_text(encoding="utf-8") if face == "accounting" else ""
        for name in names:
            paths = found.setdefault(_plain(name), [])
            place = "events" if f'"{name}"' in events else face
            path = f"{place}.{name}" if place else name
            if name not in paths and not (face.startswith("learners.") and f"learners.{name}" in paths):
                paths.append(path)  # the top is the place of what stands there too
    return {word: tuple(paths) for word, paths in found.items()}


@functools.cache
def _synonyms() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path, words in _SYNONYMS.items():
        for word in words.split():
            found.setdefault(word, []).append(path)
    return found


def close_to(word: str, known: Iterable[str]) -> list[str]:
    from difflib import get_close_matches  # used when something is wrong only

    return get_close_matches(word, list(known), 1, _SIMILAR)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
