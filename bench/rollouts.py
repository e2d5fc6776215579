"""What the cases run: rows, and configurations with one agent, one environment and one model."""

from __future__ import annotations

from typing import Any

import orjson

from gymapi.v1.rollout_pb2 import Task
from gymd.convert import params_from_json

__all__ = ["MCQA", "WEATHER", "config", "task_of"]

WEATHER = {
    "responses_create_params": {
        "input": [
            {"role": "developer", "content": "You are a helpful personal assistant."},
            {"role": "user", "content": "what's it like in sf?"},
        ],
        "tools": [
            {
                "type": "function",
                "name": "get_weather",
                "description": "",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string", "description": ""}},
                    "required": ["city"],
                    "additionalProperties": False,
                },
                "strict": True,
            }
        ],
    }
}
MCQA = {
    "responses_create_params": {
        "input": [{"role": "user", "content": "Which gas do plants take in?\nA: Carbon dioxide\nB: Argon"}]
    },
    "options": [{"A": "Carbon dioxide"}, {"B": "Argon"}],
    "expected_answer": "A",
    "grading_mode": "strict_single_letter_boxed",
}

_AGENT = """
agent:
  responses_api_agents:
    simple_agent:
      resources_server: {{type: resources_servers, name: env}}
      model_server: {{type: responses_api_models, name: policy_model}}
env:
  resources_servers:
    {env}: {{domain: agent}}
"""
_HTTP = """
policy_model:
  responses_api_models:
    openai_model:
      openai_base_url: "{url}"
      openai_api_key: bench
      openai_model: fake-model
      placement: {placement}
"""
_SCRIPTED = """
policy_model:
  responses_api_models:
    scripted_model: {options}
"""
_GYMD = """
gymd: {{max_rollouts_in_flight: {running}, pool_hosts: {hosts}}}
"""


def config(
    env: str,
    *,
    url: str = "",
    scripted: str = "{}",
    running: int = 8192,
    hosts: int = 1,
    placement: str = "shared",
) -> str:
    """A configuration with one agent, one environment and one model.

    Args:
        url: of the model's endpoint; "": a scripted model.
        placement: where the model server of an endpoint runs.
    """
    model = _HTTP.format(url=url, placement=placement) if url else _SCRIPTED.format(options=scripted)
    return _AGENT.format(env=env) + model + _GYMD.format(running=running, hosts=hosts)


def task_of(row: dict[str, Any]) -> Task:
    """The Task of a dataset row."""
    fields = {key: value for key, value in row.items() if key != "responses_create_params"}
    return Task(
        agent="agent",
        create_params=params_from_json(row["responses_create_params"]),
        fields_json=orjson.dumps(fields).decode() if fields else "",
    )
