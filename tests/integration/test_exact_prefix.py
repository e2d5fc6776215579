"""A whole rollout through simple_agent and vllm_model, whose second prompt begins with what was sampled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gymapi.v1.rollout_pb2 import DRIFT_CLEAN, DRIFT_REALIGNED, OUTCOME_COMPLETED, Rollout
from gymd.sdk.testing import Transport, start_servers
from gymservers.agents.simple_agent.server import SimpleAgent
from gymservers.models.vllm_model.server import VLLMModel
from gymservers.resources.example_single_tool_call.server import Weather
from tests.fakes import small_tokenizer as small
from tests.fakes.openai_backend import openai_backend

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

ROW = {
    "responses_create_params": {
        "input": [{"role": "user", "content": "How is the weather in the town of ab?"}],
        "tools": [{"type": "function", "name": "get_weather", "parameters": {"type": "object"}}],
        "max_output_tokens": 500,
    }
}
TEXTS = (
    "<think>\nthe ab\n</think>\n\nI ask.<tool_call>\n"
    '{"name":"get_weather","arguments":{"city":"ab"}}\n</tool_call><|im_end|>',
    "In ab the weather is cold.<|im_end|>",
)


async def play(folder: Path, transport: Transport, **config: Any) -> tuple[Rollout, Any]:
    async with openai_backend() as backend:
        engine = backend.default = small.Engine(small.write_tokenizer(folder), *TEXTS)
        model = {"base_url": backend.url, "model": "m", "return_token_id_information": True, **config}
        agent = {
            "resources_server": {"type": "resources_servers", "name": "weather"},
            "model_server": {"type": "responses_api_models", "name": "model"},
        }
        servers: Any = {
            "agent": (SimpleAgent, agent),
            "model": (VLLMModel, model),
            "weather": (Weather, {}),
        }
        async with start_servers(servers, transport=transport) as mesh:
            return await mesh["agent"].run_rollout(ROW), engine


@pytest.mark.parametrize("transport", ["in-process", "link"])
@pytest.mark.parametrize("prefix", ["tokens", "prefix_ids"])
async def test_turns_continue_each_other_exactly(tmp_path: Path, prefix: str, transport: Transport) -> None:
    rollout, engine = await play(tmp_path / "m", transport, prefix=prefix, tokenizer=str(tmp_path / "m"))
    assert rollout.outcome == OUTCOME_COMPLETED
    first, second = rollout.trajectory.segments
    assert (first.drift, second.drift) == (DRIFT_CLEAN, DRIFT_CLEAN)
    assert list(first.token_ids) == engine.prompts[0] + engine.sampled[0]
    assert list(first.token_ids) + list(second.token_ids) == engine.prompts[1] + engine.sampled[1]


async def test_without_it_the_drift_shows(tmp_path: Path) -> None:
    rollout, _ = await play(tmp_path / "m", "in-process", prefix="off")
    assert [segment.drift for segment in rollout.trajectory.segments] == [DRIFT_CLEAN, DRIFT_REALIGNED]
