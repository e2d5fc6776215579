"""azure_openai_model against a real endpoint."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gymd.errors import GymdError
from gymd.sdk.testing import check_model_server, no_tasks_left, start_server
from gymservers.models.azure_openai_model.server import AzureOpenAIModel
from tests.fakes.openai_backend import Answer, Backend, chat_message, openai_backend

VERSION = {"api-version": "2024-10-21"}


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    async with openai_backend() as running:
        yield running


def config(url: str, **more: Any) -> dict[str, Any]:
    return {"openai_base_url": url, "openai_api_key": "azure-key", "openai_model": "gpt", **more}


async def test_conformance(backend: Backend) -> None:
    backend.default = lambda _: Answer(json=chat_message("Hi."))
    await check_model_server(AzureOpenAIModel, config(backend.url, default_query=VERSION))


@pytest.mark.parametrize(
    ("suffix", "path"),
    [
        ("", "/openai/deployments/gpt/chat/completions"),
        ("/openai", "/openai/deployments/gpt/chat/completions"),
        ("/openai/deployments/other", "/openai/deployments/other/chat/completions"),
        ("/openai/v1", "/openai/v1/chat/completions"),
    ],
)
async def test_addresses(backend: Backend, suffix: str, path: str) -> None:
    backend.plan(Answer(json=chat_message("Hi.")))
    url = backend.url.removesuffix("/v1") + suffix
    async with no_tasks_left(), start_server(AzureOpenAIModel, config(url, default_query=VERSION)) as server:
        response = await server.respond({"input": "hi", "max_output_tokens": 9})
    (request,) = backend.requests
    assert (request.path, request.query) == (path, "api-version=2024-10-21")
    assert request.headers["api-key"] == "azure-key"
    assert "Authorization" not in request.headers
    assert request.json["max_completion_tokens"] == 9
    assert request.json["model"] == "gpt"
    assert response.usage.total_tokens == 18


async def test_finish_reason_is_kept(backend: Backend) -> None:
    backend.plan(Answer(json=chat_message("a", choice={"finish_reason": "content_filter"})))
    url = backend.url.removesuffix("/v1")
    async with start_server(AzureOpenAIModel, config(url, default_query=VERSION)) as server:
        response = await server.respond("hi")
    assert response.incomplete_details.reason == "content_filter"


async def test_unknown_deployment_is_named(backend: Backend) -> None:
    body = {"error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}}
    backend.plan(Answer(404, body))
    url = backend.url.removesuffix("/v1")
    async with start_server(AzureOpenAIModel, config(url, default_query=VERSION)) as server:
        with pytest.raises(GymdError, match=r"has no model 'gpt'.*correct openai_model"):
            await server.respond("hi")


async def test_bad_key(backend: Backend) -> None:
    backend.plan(Answer(401, {"error": {"code": "401", "message": "azure-key is wrong"}}))
    url = backend.url.removesuffix("/v1")
    async with start_server(AzureOpenAIModel, config(url, default_query=VERSION)) as server:
        with pytest.raises(GymdError, match="check openai_api_key") as caught:
            await server.respond("hi")
    assert "azure-key" not in caught.value.message + str(caught.value.metadata)


async def test_missing_api_version_is_told_at_the_start() -> None:
    with pytest.raises(GymdError, match=r"set default_query\.api-version"):
        async with start_server(AzureOpenAIModel, config("https://x.openai.azure.com")):
            pass


def test_eight_at_once_by_default() -> None:
    parsed = AzureOpenAIModel.Config.parse(config("https://x"))
    assert isinstance(parsed, AzureOpenAIModel.Config)
    assert parsed.num_concurrent_requests == 8
