"""The HTTP client of the model servers against a real endpoint: outcomes, retries, deadlines, cancelling."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator

import pytest

from gymd.errors import GymdError, to_status_message
from gymd.mesh import cancel_all
from gymd.sdk import http
from gymd.sdk.http import Endpoint, HttpClient, RetryPolicy
from gymd.sdk.http_outcomes import is_context_overflow
from tests.fakes.openai_backend import Answer, Backend, openai_backend

KEY = "sk-secret-0123456789"
QUICK = RetryPolicy(max_attempts=3, budget_s=5.0, base_delay_s=0.01, max_delay_s=0.05)


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    async with openai_backend() as running:
        yield running


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    http = HttpClient(retry=QUICK)
    await http.start()
    yield http
    await http.close()


def endpoint(url: str, key: str = KEY) -> Endpoint:
    return Endpoint(
        url, key, "some-model", url_key="openai_base_url", key_key="openai_api_key", model_key="openai_model"
    )


async def fails(client: HttpClient, url: str, deadline: float | None = None) -> GymdError:
    with pytest.raises(GymdError) as caught:
        await client.post_json(endpoint(url), "/responses", {"input": "hi"}, deadline)
    return caught.value


async def test_success_sends_json_and_credentials(client: HttpClient, backend: Backend) -> None:
    backend.plan(Answer(json={"id": "resp_1", "output": []}))
    answer = await client.post_json(endpoint(backend.url + "/"), "/responses", {"input": "grüß dich"})
    assert answer == {"id": "resp_1", "output": []}
    (request,) = backend.requests
    assert request.path == "/v1/responses"
    assert request.json == {"input": "grüß dich"}
    assert request.headers["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("status", "body", "reason", "says"),
    [
        (401, {"error": {"message": f"Incorrect API key: {KEY}"}}, "UPSTREAM_AUTH", "check openai_api_key"),
        (403, {"error": {"message": "no access"}}, "UPSTREAM_AUTH", "check openai_api_key"),
        (404, {"detail": "Not Found"}, "UPSTREAM_NOT_FOUND", "correct openai_base_url"),
        (
            404,
            {"error": {"code": "model_not_found", "message": "The model does not exist"}},
            "UPSTREAM_NOT_FOUND",
            "correct openai_model",
        ),
        (400, {"error": {"message": "temperature must be >= 0"}}, "UPSTREAM_REJECTED", "temperature must be"),
        (422, {"detail": [{"loc": ["input"]}]}, "UPSTREAM_REJECTED", "correct what it names"),
        (
            429,
            {"error": {"code": "insufficient_quota", "message": "quota"}},
            "UPSTREAM_RATE_LIMITED",
            "billing",
        ),
        (501, {"error": {"message": "not here"}}, "UPSTREAM_UNAVAILABLE", "HTTP 501"),
    ],
)
async def test_outcomes_that_no_retry_helps(
    client: HttpClient, backend: Backend, status: int, body: object, reason: str, says: str
) -> None:
    backend.plan(Answer(status, body))
    failure = await fails(client, backend.url)
    assert failure.reason_name == reason
    assert says in failure.message
    assert failure.metadata["upstream_status"] == str(status)
    assert failure.metadata["attempts"] == "1"
    assert failure.metadata["url"] == backend.url + "/responses"
    assert failure.metadata["upstream_body"]
    assert KEY not in failure.message + str(failure.metadata)


async def test_missing_key_is_named(client: HttpClient, backend: Backend) -> None:
    backend.plan(Answer(401, {}))
    with pytest.raises(GymdError, match="set openai_api_key; none is set"):
        await client.post_json(endpoint(backend.url, key=""), "/responses", {})


async def test_redirect_names_the_address(client: HttpClient, backend: Backend) -> None:
    backend.plan(Answer(308, {}, headers={"Location": "https://other.example/v1/responses?key=abc"}))
    failure = await fails(client, backend.url)
    assert failure.reason_name == "UPSTREAM_NOT_FOUND"
    assert "redirects to https://other.example/v1/responses " in failure.message


async def test_body_is_kept_up_to_2000_characters(client: HttpClient, backend: Backend) -> None:
    backend.plan(Answer(400, body=b"x" * 5000))
    failure = await fails(client, backend.url)
    assert failure.metadata["upstream_body"] == "x" * 2000
    assert len(failure.message) < 800


async def test_retry_after_is_honoured(client: HttpClient, backend: Backend) -> None:
    backend.plan(Answer(429, {}, headers={"Retry-After": "0.3"}), Answer(json={"ok": True}))
    started = time.monotonic()
    assert await client.post_json(endpoint(backend.url), "/responses", {}) == {"ok": True}
    assert 0.3 <= time.monotonic() - started < 10
    assert len(backend.requests) == 2


@pytest.mark.parametrize("odd", ["inf", "1e400", "9" * 30, "Fri, 31 Dec 9999 23:59:59 GMT"])
async def test_an_endless_retry_after_can_be_told(client: HttpClient, backend: Backend, odd: str) -> None:
    backend.plan(Answer(429, {}, headers={"Retry-After": odd}))
    failure = await fails(client, backend.url)
    assert failure.reason_name == "UPSTREAM_RATE_LIMITED"
    assert to_status_message(failure).retry_delay.seconds == 86_400


async def test_retry_after_beyond_the_budget_fails_at_once(client: HttpClient, backend: Backend) -> None:
    backend.plan(Answer(429, {"error": {"message": "slow down"}}, headers={"Retry-After": "60"}))
    failure = await fails(client, backend.url)
    assert failure.reason_name == "UPSTREAM_RATE_LIMITED"
    assert failure.retry_delay == 60
    assert failure.metadata["attempts"] == "1"


async def test_rate_limit_until_the_attempts_are_spent(client: HttpClient, backend: Backend) -> None:
    backend.plan(*[Answer(429, {})] * 3)
    failure = await fails(client, backend.url)
    assert failure.reason_name == "UPSTREAM_RATE_LIMITED"
    assert failure.metadata["attempts"] == "3"


async def test_server_errors_until_the_attempts_are_spent(client: HttpClient, backend: Backend) -> None:
    backend.plan(*[Answer(503, {"error": "overloaded"})] * 3)
    failure = await fails(client, backend.url)
    assert failure.reason_name == "UPSTREAM_UNAVAILABLE"
    assert failure.metadata["upstream_status"] == "503"
    assert "overloaded" in failure.message
    assert failure.metadata["attempts"] == "3"


async def test_broken_connection_is_tried_again(client: HttpClient, backend: Backend) -> None:
    backend.plan(Answer(drop=True), Answer(json=[1]))
    assert await client.post_json(endpoint(backend.url), "/responses", {}) == [1]


async def test_answer_that_is_not_json(client: HttpClient, backend: Backend) -> None:
    backend.plan(Answer(body=b"<html>hello</html>"))
    failure = await fails(client, backend.url)
    assert failure.reason_name == "UPSTREAM_MALFORMED"
    assert "<html>hello</html>" in failure.message
    assert "openai_base_url" in failure.message


async def test_connection_refused(client: HttpClient) -> None:
    with socket.socket() as taken:  # bound but not listening: nobody else gets the port
        taken.bind(("127.0.0.1", 0))
        failure = await fails(client, f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
    assert failure.reason_name == "UPSTREAM_UNAVAILABLE"
    assert "connection refused" in failure.message
    assert "openai_base_url" in failure.message
    assert failure.metadata["attempts"] == "3"


async def test_https_on_a_plain_port(client: HttpClient, backend: Backend) -> None:
    failure = await fails(client, backend.url.replace("http://", "https://"))
    assert failure.reason_name == "UPSTREAM_UNAVAILABLE"
    assert "http or https" in failure.message
    assert failure.metadata["attempts"] == "1"


async def test_deadline_ends_a_hung_endpoint(
    client: HttpClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_MARGIN_S", 8.0)  # on a busy machine a timer rings late
    backend.plan(Answer(hang=True))
    loop = asyncio.get_running_loop()
    started = loop.time()
    failure = await fails(client, backend.url, started + 8.3)
    assert failure.reason_name == "DEADLINE_EXCEEDED"
    assert 0.2 < loop.time() - started < 8.3
    assert backend.url in failure.message
    async with asyncio.timeout(20):
        await backend.aborted.wait()


async def test_cancelling_closes_the_connection(client: HttpClient, backend: Backend) -> None:
    backend.plan(Answer(hang=True))
    call = asyncio.create_task(client.post_json(endpoint(backend.url), "/responses", {}))
    async with asyncio.timeout(20):
        await backend.arrived.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await backend.aborted.wait()
    assert backend.in_flight == 0


async def test_many_that_are_cancelled_together_close_their_connections_before_one_unwinds(
    client: HttpClient,
) -> None:
    loop = asyncio.get_running_loop()
    closed: list[int] = []

    async def call(url: str) -> None:
        try:
            await client.post_json(endpoint(url), "/responses", {})
        finally:
            closed.append(sum(map(_closed, accepted)))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        calls = [asyncio.create_task(call(url)) for _ in range(20)]
        async with asyncio.timeout(5):
            accepted = [(await loop.sock_accept(listener))[0] for _ in calls]
            for connection in accepted:
                assert await loop.sock_recv(connection, 4)
            cancel_all(calls)
            await asyncio.wait(calls)
        for connection in accepted:
            connection.close()
    assert all(call.cancelled() for call in calls)
    assert closed == [20] * 20


def _closed(connection: socket.socket) -> bool:
    """Whether the other side has closed it."""
    try:
        while connection.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    return True


async def test_a_cancel_after_the_answer_leaves_the_connection_to_the_next_call(
    client: HttpClient, backend: Backend
) -> None:
    backend.plan(Answer(json={"ok": 1}), Answer(json={"ok": 2}))
    answered = asyncio.Event()

    async def call() -> None:
        await client.post_json(endpoint(backend.url), "/responses", {})
        answered.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(call())
    async with asyncio.timeout(5):
        await answered.wait()
        cancel_all([task])
        await asyncio.wait([task])
        assert await client.post_json(endpoint(backend.url), "/responses", {}) == {"ok": 2}
    assert backend.requests[0].peer == backend.requests[1].peer


async def test_more_than_a_hundred_at_once(client: HttpClient, backend: Backend) -> None:
    backend.plan(*[Answer(hang=True)] * 300)
    calls = [asyncio.create_task(client.post_json(endpoint(backend.url), "/x", {})) for _ in range(300)]
    async with asyncio.timeout(20):
        while backend.in_flight < 300:
            backend.arrived.clear()
            await backend.arrived.wait()
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_large_bodies_pass(client: HttpClient, backend: Backend) -> None:
    backend.plan(Answer(json={"ok": 1}))
    body = {"input": "x" * 3_000_000}
    assert await client.post_json(endpoint(backend.url), "/responses", body) == {"ok": 1}
    assert backend.requests[0].json == body


async def test_a_body_without_a_length_is_bounded(
    client: HttpClient, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_MAX_BODY_BYTES", 1000)
    backend.plan(Answer(body=b'"' + b"x" * 5000 + b'"', chunked=True))
    failure = await fails(client, backend.url)
    assert failure.reason_name == "UPSTREAM_MALFORMED"
    assert "1000 are the limit" in failure.message


async def test_json_that_is_nested_too_deep(client: HttpClient, backend: Backend) -> None:
    backend.plan(Answer(body=b"[" * 200_000))
    assert (await fails(client, backend.url)).reason_name == "UPSTREAM_MALFORMED"


@pytest.mark.parametrize("url", ["", "localhost:8000/v1", "ftp://x/v1", "???"])
def test_wrong_urls_are_named(url: str) -> None:
    with pytest.raises(GymdError, match="openai_base_url is"):
        endpoint(url)


def test_urls_are_shown_without_credentials() -> None:
    with pytest.raises(GymdError) as caught:
        endpoint("ftp://user:hunter2@x/v1?key=hunter2")
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize(
    ("body", "overflow"),
    [
        (b'{"error": {"code": "context_length_exceeded", "message": "too long"}}', True),
        (b'{"message": "This model\'s maximum context length is 4096 tokens."}', True),
        (b'{"message": "max_tokens must be at least 1, got -5."}', True),
        (b'{"error": {"type": "exceed_context_size_error"}}', True),
        (b'{"message": "Unsupported parameter: max_tokens is not supported with this model."}', False),
        (
            b'{"message": "max_tokens is too large: 9. This model supports at most 5 completion tokens"}',
            False,
        ),
        (b'{"message": "temperature must be positive"}', False),
    ],
)
async def test_context_overflow(client: HttpClient, backend: Backend, body: bytes, overflow: bool) -> None:
    backend.plan(Answer(400, body=body))
    assert is_context_overflow(await fails(client, backend.url)) is overflow
