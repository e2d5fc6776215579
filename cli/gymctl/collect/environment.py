"""The environments' own metrics, such as majority@k: their servers are asked when a collection is done."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from gymapi.v1.registry_service_pb2 import SERVER_KIND_AGENT
from gymapi.v1.resources_service_pb2 import AggregateMetricsRequest, ScoredRollout
from gymctl.collect.metrics import agent_of, facts_of
from gymctl.output import Column, console, make_table, note
from gymd.client import RolloutClient
from gymd.errors import GymdError, Unimplemented

__all__ = ["ScoredRollouts", "environment_metrics", "print_key_metrics"]

MAX_ROLLOUTS = 100_000
# Below the 64 MiB that a message may have: what is kept of an agent is one message.
MAX_MIB = 60
# Registered by every agent server of the SDK.
_RESOURCES_LABEL = "resources_server"
# Stands in the table of the agents already.
_SHOWN_ELSEWHERE = frozenset({"mean_reward"})


class ScoredRollouts:
    """Keeps of each scored rollout what aggregation sees; beyond the bounds it keeps none and says so."""

    def __init__(self) -> None:
        # By agent. Serialized requests of one rollout each: one after the other they are the request of all.
        self._requests: dict[str, bytearray] = {}
        self._count = 0
        self._size = 0
        self.is_full = False

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, line: Mapping[str, Any]) -> None:
        """Takes an output line; one without a reward is not scored."""
        if self.is_full or not isinstance(line.get("reward"), int | float):
            return
        data = AggregateMetricsRequest(rollouts=[_scored(line)]).SerializeToString()
        self._count += 1
        self._size += len(data)
        if self._count > MAX_ROLLOUTS or self._size > MAX_MIB << 20:
            self.is_full = True
            self._requests.clear()
            return
        self._requests.setdefault(agent_of(line), bytearray()).extend(data)

    def agents(self) -> list[str]:
        """The agents that have scored rollouts."""
        return sorted(self._requests)

    def of(self, agent: str) -> Sequence[ScoredRollout]:
        """The scored rollouts of an agent."""
        return AggregateMetricsRequest.FromString(bytes(self._requests[agent])).rollouts


def _scored(line: Mapping[str, Any]) -> ScoredRollout:
    scored = ScoredRollout(task_id=str(line.get("_ng_task_index") or 0))
    scored.index = int(line.get("_ng_rollout_index") or 0)
    scored.reward.value = line["reward"]
    for name, value in (line.get("reward_components") or {}).items():
        scored.reward.components[name] = value
    if names := facts_of(line).get("reward_extras"):
        extras = {name: line[name] for name in names if name in line}
        scored.reward.extras_json = orjson.dumps(extras).decode()
    return scored


def environment_metrics(address: str, scored: ScoredRollouts, *, stopped: bool) -> dict[str, dict[str, Any]]:
    """Asks the resources server of each agent; what is missing in the answer is said in one line on stderr.

    Args:
        stopped: the collection did not come to its end.
    """
    if not scored:
        return {}
    if stopped:
        _warn("", "the collection did not come to its end")
    elif scored.is_full:
        most = f"{MAX_ROLLOUTS:,} scored rollouts or {MAX_MIB} MiB of rewards"
        _warn("", f"the output has more than {most}; collect fewer rows (--limit) to get them")
    else:
        try:
            return asyncio.run(_ask_all(address, scored))
        except KeyboardInterrupt:
            _warn("", "they were not waited for")
        except GymdError as problem:
            _warn("", str(problem))
    return {}


async def _ask_all(address: str, scored: ScoredRollouts) -> dict[str, dict[str, Any]]:
    async with RolloutClient(address, client_name="gymctl") as client:
        listed = await client.list_servers(kind=SERVER_KIND_AGENT)
        # An agent without the label has no resources server, or is none of ours and does not tell.
        behind = {one.name: one.labels[_RESOURCES_LABEL] for one in listed.servers if one.labels}
        agents = [agent for agent in scored.agents() if behind.get(agent)]
        answers = await asyncio.gather(*(_ask(client, agent, behind[agent], scored) for agent in agents))
    return {agent: answer for agent, answer in zip(agents, answers, strict=True) if answer is not None}


async def _ask(
    client: RolloutClient, agent: str, resources: str, scored: ScoredRollouts
) -> dict[str, Any] | None:
    try:
        answer = await client.aggregate_metrics(resources, scored.of(agent))
        metrics = orjson.loads(answer.metrics_json or "{}")
    except Unimplemented:
        _warn(agent, f"{resources} does not implement AggregateMetrics")
    except GymdError as problem:
        _warn(agent, f"{resources} failed: {problem}")
    except orjson.JSONDecodeError as problem:
        _warn(agent, f"{resources} answered with no JSON ({problem})")
    else:
        if isinstance(metrics, dict):
            return {
                "resources_server": resources,
                "key_metrics": list(answer.key_metrics),
                "metrics": metrics,
            }
        _warn(agent, f"{resources} answered with no JSON object")
    return None


def _warn(agent: str, why: str) -> None:
    of_agent = f" of {agent}" if agent else ""
    note(f"Warning: no environment metrics{of_agent}: {' '.join(why.split())}")


def print_key_metrics(agents: Mapping[str, Mapping[str, Any]]) -> None:
    """Shows the metrics that their environments hold for the most important ones."""
    rows = list(_key_rows(agents))
    if rows:
        columns: list[Column] = ["AGENT", "ENVIRONMENT METRIC", ("VALUE", "right")]
        console().print()
        console().print(make_table(columns, rows))


def _key_rows(agents: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    for agent, document in agents.items():
        found = document["environment_metrics"]
        for name in found["key_metrics"] if found else ():
            value = found["metrics"].get(name)
            if value is not None and name not in _SHOWN_ELSEWHERE:
                yield agent, name, f"{value:.3f}" if isinstance(value, float) else str(value)
