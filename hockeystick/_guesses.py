"""Wrong names: an attribute or an argument that does not exist is refused with the one that was probably meant.

The faces of the packages are lazy, so a name is looked for in their stubs alone, and nothing is imported for it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

from lazy_loader import attach_stub

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")

_ROOT = Path(__file__).parent
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

    It is ``lazy_loader.attach_stub`` whose ``AttributeError`` says what may have been meant.
    """
    load, listed, names = attach_stub(package, file)

    def get(name: str) -> Any:
        if name not in names:
            raise unknown(package, name)
        return load(name)

    return get, listed, names


def unknown(package: str, name: str) -> AttributeError:
    """Returns the error of a package that has no such attribute, with a suggestion if there is one."""
    text = f"module {package!r} has no attribute {name!r}"
    meant = [] if name.startswith("__") else suggestions(name, package.partition(".")[2])
    hint = " or ".join(f"hockeystick.{path}" for path in meant)
    return AttributeError(f"{text}; did you mean {hint}?" if meant else text)


def suggestions(name: str, face: str = "") -> list[str]:
    """Returns up to two dotted names below ``hockeystick`` that may be meant, those of the package ``face`` first.

    The same word in any package comes before a synonym, and a synonym before a similar word.
    """
    index, guess = _index(), _plain(name)
    found = list(index.get(guess, ())) or list(_synonyms().get(guess, []))
    if not found:
        own = {word for word, paths in index.items() if any(path.rpartition(".")[0] == face for path in paths)}
        close = _close(guess, own) or _close(guess, [*index, *_synonyms()])
        found = [path for word in close for path in (*index.get(word, ()), *_synonyms().get(word, ()))]
    found.sort(key=lambda path: (path.rpartition(".")[0] != face, path.rpartition(".")[2] != name))
    return found[: 1 if found and found[0].rpartition(".")[0] == face else 2]


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


def _close(word: str, known: Iterable[str]) -> list[str]:
    from difflib import get_close_matches  # used when something is wrong only

    return get_close_matches(word, list(known), 1, _SIMILAR)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


# --- arguments -------------------------------------------------------------------------------------------------------

# What people write for an argument, and ours: the first that the function takes.
_ARGUMENTS = {
    "neighbors": "neighbours",
    "datasets": "neighbours",
    "pair": "neighbours",
    "d0": "neighbours",
    "d1": "neighbours",
    "eps": "epsilon claim",
    "epsilon": "claim target",
    "delta": "claim target",
    "alpha": "confidence",
    "n": "samples records count",
    "num_samples": "samples",
    "n_samples": "samples",
    "trials": "samples",
    "seed": "rng",
    "random_state": "rng",
    "n_jobs": "workers",
    "timeout": "seconds",
    "sigma": "noise_multiplier scale noise",
    "std": "noise_multiplier scale noise",
    "stddev": "noise_multiplier scale",
    "noise": "noise_multiplier scale",
    "b": "scale",
    "q": "probability sampling rate",
    "rate": "probability",
    "sample_rate": "probability",
    "sampling_probability": "probability",
    "batch_size": "batch",
    "num_epochs": "epochs",
    "dataset_size": "records",
    "num_examples": "records",
    "max_grad_norm": "clip",
    "l2_norm_clip": "clip",
    "steps": "count",
    "adjacency": "relation",
    "relation": "adjacency",
    "neighboring_relation": "adjacency",
}


def guessing(function: Callable[P, R]) -> Callable[P, R]:
    """Returns the function with an error that says which argument may have been meant by an unknown one.

    Example:
      >>> from hockeystick._guesses import guessing
      >>> @guessing
      ... def noise(*, scale):
      ...     return scale
      >>> noise(scal=1.0)
      Traceback (most recent call last):
      TypeError: noise() got an unexpected keyword argument 'scal'; did you mean 'scale'?
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            assert error.__traceback__ is not None
            if error.__traceback__.tb_next is None:  # of the call itself, not from inside
                text = str(error)
                hint = _meant(function, kwargs)
                if hint and "did you mean" not in text.lower():  # Python 3.13 finds some of them
                    raise TypeError(f"{text}; {hint}") from None
            raise

    return called


def guessing_arguments(cls: type[C]) -> type[C]:
    """Gives the constructor of a class the errors of ``guessing``, if the class has one of its own, and returns it."""
    init = vars(cls).get("__init__")
    if isinstance(init, FunctionType) and not hasattr(init, "__wrapped__"):
        cls.__init__ = guessing(init)  # type: ignore[method-assign]
    return cls


def _meant(function: Callable[..., Any], given: dict[str, Any]) -> str:
    import inspect  # used when something is wrong only

    taken = [name for name in inspect.signature(function).parameters if name != "self" and not name.startswith("_")]
    wrong = next((name for name in given if name not in taken), None)
    if wrong is None:
        return ""
    synonyms = [name for name in _ARGUMENTS.get(wrong.lower(), "").split() if name in taken]
    if close := synonyms[:1] or _close(wrong.lower(), taken):
        return f"did you mean {close[0]!r}?"
    return f"it takes {', '.join(taken)}" if taken else ""
