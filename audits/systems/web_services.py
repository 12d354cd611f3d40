"""Web services as targets: a data set is posted as JSON, and the answer holds outputs."""

from __future__ import annotations

import http.client
import json
import math
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from attrs import define, field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import integer, real
from hockeystick.audits.systems.wire import plain_json
from hockeystick.audits.targets.calling import TargetError
from hockeystick.audits.targets.json_values import decode_json

_CALLS = 16  # posts in a call of an audit, at most; a number of connections would make outputs depend on it
_AGAIN = frozenset({429, 500, 502, 503, 504})  # statuses that may be others a moment later
_FIRST_WAIT = 0.5  # seconds before the second attempt; each later wait is twice as long
_LONGEST_WAIT = 60.0
_LARGEST = 1 << 28  # bytes of an answer


class WebServiceError(TargetError):
    """A web service could not be reached, answered with an error, or answered what can't be read as outputs.

    See :class:`WebService`. The message has the status of the answer and not its text, which may hold data.
    """


@define(eq=False)
class _Pace:
    """Lets one post begin every so many seconds, from all threads together."""

    seconds: float
    _next: float = 0.0
    _lock: threading.Lock = field(factory=threading.Lock)

    def wait(self) -> None:
        with self._lock:
            now = time.monotonic()
            begin = max(now, self._next)
            self._next = begin + self.seconds
        time.sleep(begin - now)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Pace, (self.seconds,)  # each process of an audit has a pace of its own


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, which could lead the data set elsewhere."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _url(url: str) -> str:
    parts = urllib.parse.urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidArgumentError("url", url, "is not an address of http or https", "write https://host/path")
    if parts.username or parts.password:
        hidden = f"{parts.scheme}://…@{parts.hostname}"
        raise InvalidArgumentError("url", hidden, "holds a password, which the report would show", "use headers")
    return url


@frozen
class WebService:
    """A web service as a target: for each batch a JSON object is posted to its address.

    The object is ``{"data": ..., "runs": n, "seed": s}``. The answer is a JSON array of n outputs, or an object with
    such an array under ``"outputs"``. A service that ignores ``seed`` has randomness of its own; say so by
    ``seeded=False``, which leaves it out. Outputs must be independent, those of one answer too: a service must not
    cache, and must not stop because a budget is used up.

    Addresses of ``http`` and ``https`` are posted to; redirects are not followed, since they could lead the data set
    elsewhere. A post that ends with status 429, 500, 502, 503 or 504 or with a broken connection is repeated, with the
    same seed, after a wait that doubles each time or that the answer asks for (``Retry-After``). A post that is
    repeated although the service had drawn outputs draws others: if failures depend on outputs, that is not seen.

    Attributes:
      url: the address.
      batch: the largest number of outputs of one post; 1 for a service that answers with one.
      seeded: whether a seed is sent, and repeats the outputs.
      timeout: seconds that one answer may take.
      retries: how often a failed post is repeated.
      rate: the most posts per second.
      connections: the number of posts at the same time. Outputs do not depend on it.
      headers: further headers, such as ``{"Authorization": "Bearer ..."}``; no message or repr shows them.

    A data set is a value that JSON has: numbers, texts, lists, dictionaries; or an array.

    Raises:
      InvalidArgumentError: the address is not one of ``http`` or ``https``, or a number is out of range.

    Example:
      >>> import hockeystick as hs
      >>> service = hs.targets.WebService("https://stats.example/count", rate=10, batch=100)
      >>> service.repeatable, service.runs_per_call  # hs.audit(service, claim=(1.0, 0.0), neighbours=([], [1]))
      (True, 1600)
    """

    url: str = field(converter=_url)
    batch: int = field(default=1000, kw_only=True)
    seeded: bool = field(default=True, kw_only=True)
    timeout: float = field(default=60.0, kw_only=True)
    retries: int = field(default=5, kw_only=True)
    rate: float = field(default=math.inf, kw_only=True)
    connections: int = field(default=1, kw_only=True)
    headers: Mapping[str, str] = field(factory=dict, kw_only=True, repr=False, hash=False)

    _pace: _Pace = field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        integer("batch", self.batch, low=1)
        integer("retries", self.retries, low=0)
        integer("connections", self.connections, low=1)
        real("timeout", self.timeout, low=0.0, low_open=True)
        real("rate", self.rate, low=0.0, low_open=True, allow_inf=True)
        object.__setattr__(self, "_pace", _Pace(1 / self.rate))
        for name, value in self.headers.items():
            if not (isinstance(name, str) and isinstance(value, str)) or "\n" in name + value or "\r" in name + value:
                raise InvalidArgumentError(
                    "headers", name, "is not a line of text with a text", "give names and values"
                )

    @property
    def repeatable(self) -> bool:
        """Whether outputs are a function of data and seed."""
        return self.seeded

    @property
    def runs_per_call(self) -> int:
        """The most outputs that an audit asks for at once, so that it soon sees how long they take."""
        return _CALLS * self.batch

    def simulate(self, value: Any, rng: np.random.Generator, runs: int) -> list[Any]:
        """Returns ``runs`` outputs on data set ``value``.

        Raises:
          WebServiceError: the service failed, or answered with another number of outputs.
          InvalidArgumentError: the data set has no form in JSON.
        """
        data = plain_json(value)
        sizes = [min(self.batch, runs - start) for start in range(0, runs, self.batch)]
        seeds = rng.integers(1 << 31, size=len(sizes)).tolist()
        jobs = list(zip(sizes, seeds, strict=True))
        if self.connections == 1 or len(jobs) == 1:
            return [one for size, seed in jobs for one in self._outputs(data, size, seed)]
        with ThreadPoolExecutor(self.connections) as pool:
            started = [pool.submit(self._outputs, data, size, seed) for size, seed in jobs]
            try:
                return [one for future in started for one in future.result()]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _outputs(self, data: Any, runs: int, seed: int) -> list[Any]:
        """Returns the outputs of one answer."""
        asked = {"data": data, "runs": runs, **({"seed": seed} if self.seeded else {})}
        answer = self._answer(json.dumps(asked).encode())
        try:
            found = decode_json(answer.decode("utf-8-sig"))
        except ValueError:
            raise WebServiceError("the service's answer is not JSON") from None
        outputs = found.get("outputs") if isinstance(found, dict) else found
        if not isinstance(outputs, list):
            raise WebServiceError('the service\'s answer is neither an array nor an object with an array "outputs"')
        if len(outputs) != runs:
            raise WebServiceError(f"the service answered with {len(outputs)} outputs for {runs} runs")
        return [float(one) for one in outputs] if {type(one) for one in outputs} == {int, float} else outputs

    def _answer(self, body: bytes) -> bytes:
        """Returns the service's answer, after repeating the post where that may help."""
        opener = urllib.request.build_opener(_NoRedirect)
        for attempt in range(self.retries + 1):
            self._pace.wait()
            headers = {"Content-Type": "application/json", "Accept": "application/json", **self.headers}
            asked = urllib.request.Request(self.url, data=body, headers=headers, method="POST")
            wait: str | None = None
            try:
                with opener.open(asked, timeout=self.timeout) as response:
                    answer: bytes = response.read(_LARGEST + 1)
                if len(answer) > _LARGEST:
                    raise WebServiceError(f"the service's answer is longer than {_LARGEST} bytes")
                return answer
            except urllib.error.HTTPError as error:
                error.close()
                failure, wait = f"answered with status {error.code}", error.headers.get("Retry-After")
                again = error.code in _AGAIN
            except (OSError, http.client.HTTPException) as error:
                inner = error.reason if isinstance(error, urllib.error.URLError) else error
                failure = f"could not be reached ({getattr(inner, 'strerror', None) or type(inner).__name__})"
                again = not isinstance(inner, ssl.SSLCertVerificationError)
            if not again or attempt == self.retries:
                times = f", {attempt + 1} times" if attempt else ""
                raise WebServiceError(f"the service {failure}{times}")
            time.sleep(_wait(wait, attempt))
        raise AssertionError


def _wait(asked: str | None, attempt: int) -> float:
    """Returns the seconds before the next attempt: as long as the answer asks for, or twice the last wait."""
    usual = _FIRST_WAIT * 2.0**attempt
    if asked is not None and asked.strip().isascii() and asked.strip().isdigit():
        usual = max(usual, float(asked.strip()[:9]))
    return min(usual, _LONGEST_WAIT)
