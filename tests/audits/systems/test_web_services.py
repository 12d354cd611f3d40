"""Web services as targets, on a server of this process on the loopback address.

The server counts posts, fails as it is told, and answers with seeded noise.
"""

from __future__ import annotations

import json
import pickle
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Claim, TargetError, audit
from hockeystick.audits.systems import web_services
from hockeystick.audits.systems.web_services import WebService, WebServiceError

SURE = 1 - 1e-6


def noisy(asked: dict[str, Any], scale: float = 1.0) -> Any:
    noise = random.Random(asked.get("seed"))
    total = sum(asked["data"])
    drawn = [scale * (noise.expovariate(1) - noise.expovariate(1)) for _ in range(asked["runs"])]
    return [round(total + one, 6) for one in drawn]


class Server:
    """A service: ``answer`` makes the outputs; the first ``failures`` are statuses that it answers with instead."""

    def __init__(self) -> None:
        self.answer: Callable[[dict[str, Any]], Any] = noisy
        self.failures: list[int] = []
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.raw: bytes | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append(asked)
                outer.headers.append(dict(self.headers))
                status = outer.failures.pop(0) if outer.failures else 200
                body = outer.raw if outer.raw is not None else json.dumps(outer.answer(asked)).encode()
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", outer.url + "elsewhere")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.handle_error = lambda *_: None  # type: ignore[method-assign]  # of posts that were given up
        self.url = f"http://127.0.0.1:{self.http.server_port}/"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(web_services, "_FIRST_WAIT", 0.001)
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def draw(target: WebService, data: object = (), runs: int = 1) -> Any:
    return target.simulate(data, np.random.default_rng(1), runs)


def test_a_post_has_the_data_the_runs_and_a_seed(server: Server) -> None:
    found = draw(WebService(server.url, headers={"X-Key": "k"}), np.array([1, 2]), runs=3)

    (asked,) = server.asked
    assert asked["data"] == [1, 2] and asked["runs"] == 3 and isinstance(asked["seed"], int)
    assert found == noisy(asked) and server.headers[0]["X-Key"] == "k"


def test_batches_are_the_same_over_any_number_of_connections(server: Server) -> None:
    alone, together = (draw(WebService(server.url, batch=4, connections=c), runs=10) for c in (1, 3))

    assert alone == together and len(alone) == 10 and sorted(a["runs"] for a in server.asked[:3]) == [2, 4, 4]


def test_a_service_without_seeds_is_said_to_have_randomness_of_its_own(server: Server) -> None:
    target = WebService(server.url, seeded=False)
    verdict = audit(target, claim=Claim(1.0), neighbours=([], []), samples=20, rng=1, confidence=0.6)

    assert "seed" not in server.asked[0] and any("source of random numbers" in w for w in verdict.warnings)


@pytest.mark.parametrize(
    ("answer", "outputs"),
    [([1, 2.5], [1.0, 2.5]), ({"outputs": ["a", None], "more": 1}, ["a", None]), ([{"x": 1}, [2]], [{"x": 1}, [2]])],
)
def test_answers_are_arrays_or_have_them(server: Server, answer: Any, outputs: list[Any]) -> None:
    server.answer = lambda _: answer
    assert draw(WebService(server.url), runs=2) == outputs


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_failures_that_may_pass_are_tried_again_with_the_same_seed(server: Server, status: int) -> None:
    server.failures = [status] * 3

    assert len(draw(WebService(server.url), runs=2)) == 2
    assert len(server.asked) == 4 and len({asked["seed"] for asked in server.asked}) == 1


def test_there_is_an_end_to_trying(server: Server) -> None:
    server.failures = [503] * 9
    with pytest.raises(WebServiceError, match="answered with status 503, 3 times"):
        draw(WebService(server.url, retries=2))
    assert len(server.asked) == 3


@pytest.mark.parametrize("status", [302, 400, 401, 404])
def test_other_failures_end_it_at_once_and_redirects_are_not_followed(server: Server, status: int) -> None:
    server.failures, server.raw = [status], b"secret of Ada"
    with pytest.raises(WebServiceError, match=f"answered with status {status}$"):
        draw(WebService(server.url, headers={"Authorization": "key"}))
    assert len(server.asked) == 1 and "key" not in repr(WebService(server.url, headers={"Authorization": "key"}))


@pytest.mark.parametrize(
    ("raw", "said"),
    [(b"secret", "is not JSON"), (b'{"a": "secret"}', "neither an array"), (b'["secret"]', "1 outputs for 2 runs")]
    + [(b"\xff\xfe", "is not JSON")],
)
def test_answers_that_are_no_outputs_are_refused_and_not_shown(server: Server, raw: bytes, said: str) -> None:
    server.raw = raw
    with pytest.raises(WebServiceError, match=said) as caught:
        draw(WebService(server.url), runs=2)
    assert "secret" not in str(caught.value)


def test_no_server_and_a_slow_one(server: Server) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(WebServiceError, match=r"could not be reached \(.*\), 2 times"):
        draw(WebService(nowhere, retries=1))

    def late(asked: dict[str, Any]) -> Any:
        time.sleep(1)
        return noisy(asked)

    server.answer = late
    with pytest.raises(WebServiceError, match="could not be reached"):
        draw(WebService(server.url, retries=0, timeout=0.2))


def test_posts_keep_to_the_rate(server: Server) -> None:
    """Five posts at 20 a second begin within 0.2 seconds at the least."""
    started = time.monotonic()
    target = WebService(server.url, batch=1, rate=20, connections=5)
    draw(target, runs=3)
    draw(target, runs=2)
    assert time.monotonic() - started >= 0.2 and len(server.asked) == 5


def test_waits_double_and_do_as_they_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [web_services._wait(None, n) for n in (0, 1, 2, 20)] == [0.5, 1.0, 2.0, 60.0]
    assert web_services._wait("7", 0) == 7.0 and web_services._wait("9" * 30, 0) == 60.0
    assert web_services._wait("soon", 0) == 0.5


BAD: list[tuple[Any, dict[str, Any]]] = [
    ("ftp://host/x", {}),
    ("file:///etc/passwd", {}),
    ("host/path", {}),
    ("http://", {}),
    (3, {}),
    ("https://user:secret@host/", {}),
    ("https://host/", {"batch": 0}),
    ("https://host/", {"rate": 0}),
    ("https://host/", {"retries": -1}),
    ("https://host/", {"timeout": float("nan")}),
    ("https://host/", {"connections": 0}),
    ("https://host/", {"headers": {"a": "secret\nb"}}),
]


@pytest.mark.parametrize(("url", "options"), BAD)
def test_bad_arguments_post_nothing(url: Any, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        WebService(url, **options)
    assert "secret" not in str(caught.value)


def test_a_service_can_be_sent_to_other_processes() -> None:
    target = WebService("https://host/", rate=3, headers={"a": "b"})
    assert pickle.loads(pickle.dumps(target)) == target


@pytest.mark.statistical
def test_a_private_service_is_not_refuted_and_one_with_half_the_noise_is(server: Server) -> None:
    """Laplace noise of scale 1 and 1/2 at ε = 1, 4,000 outputs; the first is refuted with probability 1e-6 at most."""
    options: dict[str, Any] = {"claim": Claim(1.0), "neighbours": ([], [1]), "samples": 4000, "rng": 1}
    target = WebService(server.url, connections=4)

    assert not audit(target, confidence=SURE, **options).refuted
    server.answer = lambda asked: noisy(asked, 0.5)
    assert audit(target, **options).refuted


def test_a_failing_service_is_an_error_of_the_target(server: Server) -> None:
    server.failures = [400] * 99
    with pytest.raises(TargetError, match="WebServiceError: the service answered with status 400"):
        audit(WebService(server.url), claim=Claim(1.0), neighbours=([], [1]), samples=20, rng=1)
