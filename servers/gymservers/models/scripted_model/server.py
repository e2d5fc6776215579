"""Answers by rules, in-process, without a model: for tests, demonstrations and capacity measurement."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import itertools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pydantic
import yaml

from gymapi.v1.responses_pb2 import Response, ResponseCreateParams
from gymd.errors import GymdError, error
from gymd.sdk import ModelCall, ModelServer, ServerConfig
from gymservers.models.scripted_model.chance import parse_distribution, share
from gymservers.models.scripted_model.request import Request, read_request
from gymservers.models.scripted_model.script import Answer, Rule, Tokens
from gymservers.models.scripted_model.templates import build_response, name_response

__all__ = ["ScriptedModel", "ScriptedModelConfig"]

_DEFAULT_TEXT = "This is the final answer: \\boxed{A}."
_DEFAULT_RULES = [
    {"when": {"tools": True, "tool_outputs": 0}, "call": {"name": ""}},
    {"text": _DEFAULT_TEXT},
]
_PYTHON_FUNCTION = "answer"
# Forms of prepared responses: rules x turns x tool sets. Beyond it they are made anew.
_MAX_TEMPLATES = 10_000


class ScriptedModelConfig(ServerConfig):
    """Keys of scripted_model; a script file may hold any of them but `script`."""

    script: Path | None = None
    """A YAML file with these keys, or a Python file with a function `answer(request)`."""
    rules: list[Rule] | None = None
    """The first rule whose condition holds answers. Absent: call the first tool once, then a fixed text."""
    latency: str | float = 0.0
    """Seconds before each answer: a number, uniform:LOW:HIGH, exponential:MEAN or lognormal:MEDIAN:SIGMA."""
    seed: int = 0
    """Chooses latencies and probabilities, together with rollout and turn."""
    tokens: Tokens = pydantic.Field(default_factory=Tokens)
    """Token counts of answers that name none."""
    return_token_id_information: bool = False
    """Return made-up token ids and logprobs, unless the call itself says otherwise."""

    @pydantic.field_validator("latency")
    @classmethod
    def _latency(cls, value: str | float) -> str | float:
        parse_distribution(value)
        return value


class ScriptedModel(ModelServer):
    """Answers by rules."""

    Config = ScriptedModelConfig
    config: ScriptedModelConfig

    async def start(self) -> None:
        """Reads the script."""
        config = self.config
        self._function: Callable[[Request], Any] | None = None
        if config.script is not None:
            loaded = await asyncio.to_thread(_load, config.script)
            if isinstance(loaded, dict):
                config = _with_file(config, loaded)
            else:
                self._function = loaded
        self._settings = config
        usual = parse_distribution(config.latency)
        rules = config.rules if config.rules is not None else [Rule.model_validate(r) for r in _DEFAULT_RULES]
        self._rules = [_Prepared(number, rule, rule.delay(usual)) for number, rule in enumerate(rules)]
        self._usual = usual
        self._templates: dict[Any, Response] = {}
        self._unnamed = itertools.count()
        self.log.warning("%s answers by a script: rewards say nothing about a model", self.name)

    def labels(self) -> dict[str, str]:
        """Says that no model answers."""
        return {"model": "scripted", "script": str(self.config.script or "built-in rules")}

    async def create_response(self, params: ResponseCreateParams, call: ModelCall) -> Response:
        """Answers by the first rule that applies; the same rollout and turn get the same answer."""
        request = read_request(params, call.rollout_id)
        who = call.rollout_id or next(self._unnamed)
        wanted = call.return_tokens
        wanted = self._settings.return_token_id_information if wanted is None else wanted
        if self._function is not None:
            return await self._by_function(request, who, wanted)
        for rule in self._rules:
            groups = rule.applies(request, self._settings.seed, who)
            if groups is None:
                continue
            delay = (
                rule.delay(share(self._settings.seed, "latency", who, request.turn)) if rule.waits else 0.0
            )
            if delay > 0:
                await asyncio.sleep(delay)
            answer = rule.rule.answer(request.turn)
            if answer.error is not None or answer.hang:
                await _fail(answer)
            made = self._response(rule, answer, request, who, wanted, groups)
            return name_response(made, who, request.turn)
        text = f"no rule of the script applies to turn {request.turn}; end it with a rule without `when`"
        raise error("INVALID_REQUEST", text, turn=request.turn)

    def _response(
        self,
        rule: _Prepared,
        answer: Answer,
        request: Request,
        who: object,
        wanted: bool,
        groups: Sequence[Any],
    ) -> Response:
        """The prepared response, or a new one where it depends on the call."""
        tokens = answer.tokens or self._settings.tokens
        size = tokens.size(self._settings.seed, who, request.turn)
        if rule.filled_in or not tokens.fixed:
            return build_response(answer, request, size, wanted, groups)
        key: Any = (rule.number, request.turn, wanted)
        if rule.made_up:
            # Prepared responses hold names and arguments that follow from the tools.
            key = (*key, *((tool.name, tool.parameters_json) for tool in request.tools))
        response = self._templates.get(key)
        if response is None:
            response = build_response(answer, request, size, wanted, groups)
            if len(self._templates) < _MAX_TEMPLATES:
                self._templates[key] = response
        return response

    async def _by_function(self, request: Request, who: object, wanted: bool) -> Response:
        assert self._function is not None
        delay = self._usual(share(self._settings.seed, "latency", who, request.turn))
        if delay > 0:
            await asyncio.sleep(delay)
        said = self._function(request)
        if inspect.isawaitable(said):
            said = await said
        if isinstance(said, Response):
            return said
        try:
            answer = Answer.model_validate({"text": said} if isinstance(said, str) else said)
        except pydantic.ValidationError as problem:
            raise _script_error(self._settings.script, f"{_PYTHON_FUNCTION}() returned: {problem}") from None
        if answer.error is not None or answer.hang:
            await _fail(answer)
        size = (answer.tokens or self._settings.tokens).size(self._settings.seed, who, request.turn)
        made = build_response(answer, request, size, wanted, ())
        return name_response(made, who, request.turn)


class _Prepared:
    """A rule with everything computed that does not depend on the call."""

    def __init__(self, number: int, rule: Rule, delay: Callable[[float], float]) -> None:
        self.number = number
        self.rule = rule
        self.delay = delay
        self.waits = delay(0.5) > 0
        answers = rule.turns or [rule]
        self.filled_in = any(answer.is_filled_in() for answer in answers)
        calls = [call for answer in answers for call in answer.all_calls]
        self.made_up = any(call.arguments is None or not call.name for call in calls)
        when = rule.when
        self._turns = {when.turn} if isinstance(when.turn, int) else set(when.turn or ())
        self._pattern = re.compile(when.match) if when.match is not None else None

    def applies(self, request: Request, seed: int, who: object) -> Sequence[Any] | None:
        """None if the condition does not hold; else the groups of its expression."""
        when = self.rule.when
        if self._turns and request.turn not in self._turns:
            return None
        if when.tools is not None and bool(request.tools) != when.tools:
            return None
        if when.tool_outputs is not None and request.tool_outputs != when.tool_outputs:
            return None
        if when.contains is not None and when.contains not in request.user_text:
            return None
        if when.output_contains is not None and when.output_contains not in request.output_text:
            return None
        if when.model is not None and request.params.model != when.model:
            return None
        chance = when.probability
        if chance is not None and share(seed, self.number, who, request.turn) >= chance:
            return None
        if self._pattern is None:
            return ()
        found = self._pattern.search(request.user_text)
        return found.groups() if found else None


async def _fail(answer: Answer) -> None:
    if answer.error is None:
        await asyncio.Event().wait()
        return
    failure = answer.error
    raise error(failure.reason, failure.message, retry_delay=failure.retry_delay, scripted="true")


def _load(path: Path) -> Any:
    """The keys of a YAML file, or the function of a Python file."""
    if path.suffix == ".py":
        spec = importlib.util.spec_from_file_location(f"gymd_script_{path.stem}", path)
        if spec is None or spec.loader is None or not path.is_file():
            raise _script_error(path, "there is no such file")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        function = getattr(module, _PYTHON_FUNCTION, None)
        if not callable(function):
            raise _script_error(path, f"it needs a function `{_PYTHON_FUNCTION}(request)`")
        return function
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as problem:
        raise _script_error(path, str(problem)) from None
    if isinstance(loaded, list):
        loaded = {"rules": loaded}
    if not isinstance(loaded, dict) or "script" in loaded:
        raise _script_error(path, "it must be a mapping with `rules`, or a list of rules")
    return loaded


def _with_file(config: ScriptedModelConfig, loaded: dict[str, Any]) -> ScriptedModelConfig:
    """The file's keys; those of the server's own block win."""
    own = {name: getattr(config, name) for name in config.model_fields_set}
    try:
        return ScriptedModelConfig.model_validate({**loaded, **own})
    except pydantic.ValidationError as problem:
        raise _script_error(config.script, str(problem)) from None


def _script_error(path: Path | None, problem: str) -> GymdError:
    return error("INVALID_REQUEST", f"the script {path} cannot be used: {problem}", field="script", path=path)
