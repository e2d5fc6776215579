"""mini-swe-agent's own loop over a model and an environment that belong to a rollout of the mesh.

The package is imported when the server starts, not with this module.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gymapi.v1.responses_pb2 import FunctionCall, ResponseCreateParams
from gymapi.v1.rollout_pb2 import (
    OUTCOME_COMPLETED,
    OUTCOME_EMPTY,
    OUTCOME_TRUNCATED_TOKENS,
    OUTCOME_TRUNCATED_TURNS,
)
from gymd.convert import output_text
from gymd.sdk import AgentRun
from gymservers.agents.mini_swe_agent.bridge import Bridge

__all__ = ["Limits", "Package", "Templates", "drive", "has_input", "load_package", "read_templates"]

TOOL = "bash"
_SUBMITTED = re.compile(r"<returncode>0</returncode>\n<output>\s*COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT *\n")
# How the package calls the end of a run, and what that is here.
_ENDS = {
    "Submitted": (OUTCOME_COMPLETED, "submitted"),
    "LimitsExceeded": (OUTCOME_TRUNCATED_TURNS, "step_limit"),
    "RepeatedFormatError": (OUTCOME_EMPTY, "collapse_limit"),
}


@dataclass(frozen=True)
class Templates:
    """The texts that the agent adds to a conversation, in Jinja."""

    system: str
    instance: str
    format_error: str


@dataclass(frozen=True)
class Limits:
    """When the loop ends: after so many model calls, or so many answers without a usable call in a row."""

    steps: int
    format_errors: int


@dataclass(frozen=True)
class Package:
    """What is used of mini-swe-agent.

    Attributes:
        folder: where it is installed.
        agent: its class DefaultAgent.
        exceptions: its module of exceptions.
        template: Jinja's class, which it brings along.
    """

    folder: Path
    agent: Any
    exceptions: Any
    template: Any


def load_package() -> Package:
    """Imports the package, without its banner and its file of settings; raises ImportError."""
    # It makes the settings' folder when it is imported, and reads them into the environment.
    with tempfile.TemporaryDirectory(prefix="gymd-mini-swe-") as folder:
        wanted = {"MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": folder}
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        try:
            package = importlib.import_module("minisweagent")
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
    return Package(
        Path(package.package_dir),
        importlib.import_module("minisweagent.agents.default").DefaultAgent,
        importlib.import_module("minisweagent.exceptions"),
        importlib.import_module("jinja2").Template,
    )


def read_templates(package: Package, path: str | None) -> Templates:
    """Reads the templates from a configuration file of mini-swe-agent; None: the package's own for SWE-bench.

    Raises:
        ValueError: a template is missing in the file.
        OSError: there is no such file.
    """
    file = Path(path) if path else package.folder / "config/benchmarks/swebench.yaml"
    tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    try:
        agent, model = tree["agent"], tree["model"]
        texts = (agent["system_template"], agent["instance_template"], model["format_error_template"])
    except (KeyError, TypeError):
        keys = "agent.system_template, agent.instance_template and model.format_error_template"
        raise ValueError(f"{file} needs {keys}") from None
    return Templates(*map(str, texts))


def drive(
    package: Package, bridge: Bridge, run: AgentRun, task: str, templates: Templates, limits: Limits
) -> None:
    """Runs the package's loop to its end; blocks.

    Args:
        task: the problem statement.

    Raises:
        GymdError: the model or the container failed.
    """
    model = _Model(package, bridge, run, templates)
    agent = package.agent(
        model,
        _Environment(package, bridge, run),
        system_template=templates.system,
        instance_template=templates.instance,
        step_limit=limits.steps,
        cost_limit=0.0,  # no limit: what a call costs is not known here
        max_consecutive_format_errors=limits.format_errors,
    )
    status = agent.run(task).get("exit_status", "")
    run.finish(*(model.end or _ENDS[status]))


def has_input(params: ResponseCreateParams) -> bool:
    """Whether a row brings a conversation of its own."""
    return bool(params.input_text or params.input_items.items)


class _Model:
    """The mesh's model, as mini-swe-agent calls it (its Model protocol).

    Attributes:
        config: none; asked for by the protocol.
        end: how the rollout ended, where the package has no word for it.
    """

    config = None

    def __init__(self, package: Package, bridge: Bridge, run: AgentRun, templates: Templates) -> None:
        self._package = package
        self._bridge, self._run, self._templates = bridge, run, templates
        self._brings_input = has_input(run.params)
        self._seen = 0
        self.end: tuple[int, str] | None = None

    def query(self, messages: list[dict[str, Any]], **_: Any) -> dict[str, Any]:
        """The next answer, with the calls to be run."""
        new, self._seen = messages[self._seen :], len(messages)
        response = self._bridge.call(self._ask(new))
        if response.HasField("incomplete_details"):
            self.end = (OUTCOME_TRUNCATED_TOKENS, response.incomplete_details.reason or "incomplete")
            raise self._package.exceptions.InterruptAgentFlow(_exit("Truncated"))
        calls = [item.function_call for item in response.output if item.HasField("function_call")]
        if not any(_usable(call) for call in calls):
            raise self._format_error(calls)
        text = output_text(response)
        return {
            "role": "assistant",
            "content": text,
            "extra": {"actions": [{"call": call} for call in calls]},
        }

    async def _ask(self, messages: Sequence[dict[str, Any]]) -> Any:
        for message in messages:
            self._add(message)
        return await self._run.model()

    def _add(self, message: dict[str, Any]) -> None:
        """Appends what the agent says to the conversation; answers and outputs stand there already."""
        opening = not message["extra"].get("interrupt_type")
        if message["role"] not in ("system", "user") or (opening and self._brings_input):
            return
        added = self._run.params.input_items.items.add()
        added.message.role = message["role"]
        added.message.content_text = message["content"]
        if not opening:  # what the row and the templates say is no news of this rollout
            self._run.output.append(added)

    def _format_error(self, calls: Sequence[FunctionCall]) -> Any:
        if calls:
            # Each call needs an output, which says what is wrong with it.
            self._bridge.call(self._run.call_tools(calls))
        why = "No call could be run." if calls else "There is no tool call in your answer."
        template = self._package.template(self._templates.format_error)
        text = template.render(error=why, actions=[], has_tool_calls=bool(calls))
        extra = {"interrupt_type": "FormatError"}
        return self._package.exceptions.FormatError({"role": "user", "content": text, "extra": extra})

    def format_message(self, role: str, content: str, extra: dict[str, Any] | None = None) -> dict[str, Any]:
        """A message as the package keeps it."""
        return {"role": role, "content": content, "extra": extra or {}}

    def format_observation_messages(
        self, message: dict[str, Any], outputs: list[dict[str, Any]], variables: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """The outputs as messages; the model reads them as the tool gave them."""
        return [self.format_message("tool", output["output"]) for output in outputs]

    def get_template_vars(self, **_: Any) -> dict[str, Any]:
        """Nothing: a template may not depend on the model."""
        return {}

    def serialize(self) -> dict[str, Any]:
        """Nothing: the rollout is kept by the mesh."""
        return {}


class _Environment:
    """The session's container, as mini-swe-agent calls it (its Environment protocol)."""

    config = None

    def __init__(self, package: Package, bridge: Bridge, run: AgentRun) -> None:
        self._package, self._bridge, self._run = package, bridge, run

    def execute(self, action: dict[str, Any], cwd: str = "") -> dict[str, Any]:
        """Runs one call; raises Submitted when it hands in a patch."""
        call: FunctionCall = action["call"]
        self._bridge.call(self._run.call_tools([call]))
        output = self._run.output[-1].function_call_output.output_text
        if call.name == TOOL and _SUBMITTED.match(output):
            raise self._package.exceptions.Submitted(_exit("Submitted"))
        return {"output": output}

    def get_template_vars(self, **_: Any) -> dict[str, Any]:
        """Nothing: the container is the same for all."""
        return {}

    def serialize(self) -> dict[str, Any]:
        """Nothing: see the model's."""
        return {}


def _exit(status: str) -> dict[str, Any]:
    """The message that ends the package's loop."""
    return {"role": "exit", "content": "", "extra": {"exit_status": status}}


def _usable(call: FunctionCall) -> bool:
    try:
        arguments = json.loads(call.arguments_json)
    except (ValueError, RecursionError):
        return False
    return call.name == TOOL and isinstance(arguments, dict) and isinstance(arguments.get("command"), str)
