"""Judges: models that decide what no program can, such as whether two answers mean the same.

A judge is a model server, called through the mesh like any model. What it reads is a prompt file; what counts
of its answer is the first of the labels that it was asked to choose from. Every verdict is kept: a verifier
puts them into its reward's extras as `judge_evaluations`.

A judge whose endpoint fails, or whose answer holds no label, has failed: it is asked again within a budget,
and then the rollout ends without a reward (JUDGE_FAILED). Nothing is guessed from what was not said.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pydantic

from gymapi.v1.model_service_pb2 import CreateResponseRequest
from gymapi.v1.responses_pb2 import Response
from gymd.convert import message_text, params_from_json, response_to_json, split_think, validate_params
from gymd.errors import GymdError, error
from gymd.mesh import Mesh
from gymd.sdk.base import ModelRef, ServerConfig
from gymd.sdk.hooks import Session

__all__ = ["EquivalenceJudgeConfig", "Judge", "JudgeConfig", "Prompt", "Verdict", "rollout_id"]

log = logging.getLogger(__name__)

SHOWN_CHARS = 500
"""How much of an answer an error shows."""
MAX_DELAY_S = 60.0
"""Longest pause between two tries before jitter, whatever the endpoint asks for."""

_OFF_FORMAT = "OFF_FORMAT"
# Another try may find it better. Anything else (a wrong key, a refused prompt) gives the same again.
_PASSING = {
    "DEADLINE_EXCEEDED",
    "DRAINING",
    "LIMIT_REACHED",
    "PEER_UNREACHABLE",
    "SERVER_NOT_READY",
    "UPSTREAM_MALFORMED",
    "UPSTREAM_RATE_LIMITED",
    "UPSTREAM_UNAVAILABLE",
    _OFF_FORMAT,
}
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{(\w+)\}")


class JudgeConfig(ServerConfig):
    """Configuration of a server with a judge; NeMo Gym's keys where it has them."""

    judge_model_server: ModelRef
    """The model server that judges, as `{type: responses_api_models, name: judge_model}`."""
    judge_responses_create_params: dict[str, Any] = pydantic.Field(default={})
    """Sampling parameters of the judge's calls, as in the Responses API. Its `input` stays empty."""
    judge_endpoint_max_concurrency: int | None = pydantic.Field(default=64, ge=1)
    """Calls of the judge under way at most; further ones wait. null: no limit."""
    judge_system_message: str | None = None
    """System message in front of the prompt; null or "": none."""
    judge_attempts: int = pydantic.Field(default=3, ge=1, le=20)
    """Tries for one verdict, the first included; then the verification fails."""
    judge_timeout_s: float = pydantic.Field(default=120.0, gt=0)
    """Seconds for one try."""
    judge_peer_wait_s: float = pydantic.Field(default=30.0, ge=0)
    """Seconds that one try waits for a judge that is starting."""
    judge_backoff_s: float = pydantic.Field(default=0.5, ge=0)
    """Seconds before the second try after a failure of the endpoint; they double each time, with jitter.
    After an answer without a label the judge is asked again at once."""

    @pydantic.field_validator("judge_responses_create_params")
    @classmethod
    def _usable(cls, params: dict[str, Any]) -> dict[str, Any]:
        if params.get("input"):
            raise ValueError("leave `input` empty; the prompt file says what the judge reads")
        problems = validate_params({**params, "input": "?"})
        if problems:
            raise ValueError("; ".join(problems))
        return {key: value for key, value in params.items() if key != "input"}


class EquivalenceJudgeConfig(JudgeConfig):
    """Configuration of a judge that says whether two answers are equal."""

    judge_equal_label: str = pydantic.Field(default="[[A=B]]", min_length=1)
    """What the judge writes for equal answers."""
    judge_not_equal_label: str = pydantic.Field(default="[[A!=B]]", min_length=1)
    """What the judge writes for different answers."""

    @pydantic.model_validator(mode="after")
    def _distinct(self) -> Self:
        one, other = self.judge_equal_label, self.judge_not_equal_label
        if one.startswith(other) or other.startswith(one):
            raise ValueError(f"the labels {one!r} and {other!r} begin alike and cannot be told apart")
        return self

    @property
    def labels(self) -> tuple[str, str]:
        """What the judge chooses from."""
        return self.judge_equal_label, self.judge_not_equal_label


class Verdict(pydantic.BaseModel):
    """One verdict of a judge, as it is kept with the rollout."""

    model_config = pydantic.ConfigDict(frozen=True)

    prompt_file: str
    """The prompt, as the configuration names its file."""
    answer: str
    """The answer that was judged."""
    verdict_label: str
    """The label that the judge chose."""
    attempts: int
    """Tries that it took."""
    failures: list[str]
    """Why the tries before the last failed."""
    responses_create_params: dict[str, Any]
    """What the judge was sent: the messages and the sampling parameters."""
    response: dict[str, Any]
    """What it answered: text, reasoning, model and usage."""

    def told(self) -> dict[str, str]:
        """What an error has room for: which prompt, the start of which answer, which label."""
        answer = self.answer[: SHOWN_CHARS // 4]  # trailers hold some 8 KiB in all
        return {"prompt_file": self.prompt_file, "answer": answer, "verdict_label": self.verdict_label}


@dataclass(frozen=True)
class Prompt:
    """A prompt file: text with placeholders such as `{question}`.

    As with str.format `{{` and `}}` stand for one brace. Any other brace is just a brace, and values are put
    in as they are, whatever they hold.
    """

    file: str
    text: str

    @classmethod
    def load(cls, file: str, folder: Path, placeholders: Iterable[str]) -> Prompt:
        """Reads a prompt file.

        Args:
            file: its path. A relative one starts in `folder`, or else in the working directory.
            folder: the server's own folder.
            placeholders: what the text must hold.

        Raises:
            InvalidRequest: no such file, no text, or a placeholder is missing.
        """
        path = folder / file
        try:
            text = (path if path.is_file() else Path(file)).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as failure:
            text = f"cannot read the judge's prompt {file} in {folder} or in {Path.cwd()}: {failure}"
            raise error("INVALID_REQUEST", text, file=file) from None
        used = {match[1] for match in _PLACEHOLDER.finditer(text)}
        missing = [f"{{{name}}}" for name in placeholders if name not in used]
        if missing:
            names = ", ".join(missing)
            text = f"the judge's prompt {file} lacks {names}: the judge would not see it; add it to the file"
            raise error("INVALID_REQUEST", text, file=file, missing=names)
        return cls(file, text)

    def fill(self, values: Mapping[str, str]) -> str:
        """The text with its placeholders replaced; braces within the values mean nothing."""

        def replacement(match: re.Match[str]) -> str:
            return values.get(match[1], match[0]) if match[1] else match[0][0]

        return _PLACEHOLDER.sub(replacement, self.text)


class Judge:
    """Asks one judge.

    Args:
        config: which one, and how.
        mesh: where it is found.
    """

    def __init__(self, config: JudgeConfig, mesh: Mesh) -> None:
        self._config = config
        self._name = config.judge_model_server.name
        self._mesh = mesh
        limit = config.judge_endpoint_max_concurrency
        self._places: Any = asyncio.Semaphore(limit) if limit else contextlib.nullcontext()

    async def ask(
        self,
        prompt: Prompt,
        values: Mapping[str, str],
        *,
        answer: str,
        labels: Sequence[str],
        rollout_id: str = "",
        earlier: Sequence[Verdict] = (),
    ) -> Verdict:
        """Asks for a verdict.

        Args:
            prompt: what the judge reads.
            values: what its placeholders stand for.
            answer: the answer that is judged, for the record.
            labels: what the judge chooses from. The one that comes first in its answer counts.
            rollout_id: keeps the calls of a rollout on one replica.
            earlier: verdicts that the verification has already: a failure keeps them, as no reward will.

        Raises:
            Unavailable: JUDGE_FAILED, there was no verdict within the tries of the configuration.
        """
        params = self._params(prompt.fill(values))
        failures: list[GymdError] = []
        for attempt in range(1, self._config.judge_attempts + 1):
            if failures:
                await asyncio.sleep(self._delay(failures))
            try:
                response = await self._respond(params, rollout_id)
                label = _label(response, labels)
            except GymdError as failure:
                failures.append(failure)
                log.warning("judge_failed", extra={"judge": self._name, "why": failure.message})
                if _cause(failure) not in _PASSING:
                    break
            else:
                return Verdict(
                    prompt_file=prompt.file,
                    answer=answer,
                    verdict_label=label,
                    attempts=attempt,
                    failures=[f"{_cause(failure)}: {failure.message}" for failure in failures],
                    responses_create_params=params,
                    response=response_to_json(response),
                )
        raise self._failed(failures, earlier)

    def _params(self, text: str) -> dict[str, Any]:
        messages = [{"role": "user", "content": text}]
        if self._config.judge_system_message:
            messages.insert(0, {"role": "system", "content": self._config.judge_system_message})
        return {**self._config.judge_responses_create_params, "input": messages}

    async def _respond(self, params: dict[str, Any], rollout_id: str) -> Response:
        # A message of its own for each try: in-process it is shared with the model server.
        request = CreateResponseRequest(
            params=params_from_json(params), rollout_id=rollout_id, return_tokens=False
        )
        async with self._places:
            stub = await self._stub(rollout_id)
            answer = await stub.CreateResponse(request, timeout=self._config.judge_timeout_s)
        response: Response = answer.response
        return response

    async def _stub(self, rollout_id: str) -> Any:
        try:
            peer = self._mesh.pick(self._name, "model", rollout_id)
        except GymdError:
            peer = await self._mesh.wait(self._name, "model", self._config.judge_peer_wait_s)
        return self._mesh.stub(peer)

    def _delay(self, failures: Sequence[GymdError]) -> float:
        """Seconds to wait after these failures."""
        last = failures[-1]
        if _cause(last) == _OFF_FORMAT:
            return 0.0
        delay = last.retry_delay or self._config.judge_backoff_s * 2 ** (len(failures) - 1)
        return min(MAX_DELAY_S, delay) * random.uniform(1.0, 1.5)

    def _failed(self, failures: Sequence[GymdError], earlier: Sequence[Verdict]) -> GymdError:
        last, tries = failures[-1], len(failures)
        budget = "1 try" if tries == 1 else f"{tries} tries"
        text = f"the judge {self._name} gave no verdict in {budget}; the last failure: {last.message}"
        kept: dict[str, Any] = {
            key: value for key, value in last.metadata.items() if key.startswith(("upstream_", "answer"))
        }
        if earlier:
            kept["verdicts"] = json.dumps([verdict.told() for verdict in earlier], ensure_ascii=False)
        return error("JUDGE_FAILED", text, judge=self._name, attempts=tries, cause=_cause(last), **kept)


def rollout_id(session: Session | None, response: Response) -> str:
    """The rollout that is verified, for the judge's calls: agents name sessions `<rollout id>#<attempt>`.

    Without a session (a stored rollout is scored again) the id of its response stands for it.
    """
    return response.id if session is None else session.id.rpartition("#")[0] or session.id


def _label(response: Response, labels: Sequence[str]) -> str:
    """The label that comes first in a judge's closing message; reasoning does not count."""
    text = ""
    for item in response.output:
        if item.HasField("message") and item.message.role == "assistant":
            text = split_think(message_text(item.message))[1]
    found = [(place, label) for label in labels if (place := text.find(label)) >= 0]
    if found:
        return min(found)[1]
    shown = text.strip()[:SHOWN_CHARS]
    wanted = " nor ".join(repr(label) for label in labels)
    why = f"its answer holds neither {wanted}; it begins: {shown!r}"
    if response.status == "incomplete":
        why += ". It was cut off: raise max_output_tokens in judge_responses_create_params"
    raise error("JUDGE_FAILED", why, cause=_OFF_FORMAT, answer=shown)


def _cause(failure: GymdError) -> str:
    return failure.metadata.get("cause", failure.reason_name)
