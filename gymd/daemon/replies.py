"""What a trainer answered to a model call, checked and made the answer of a model server."""

from __future__ import annotations

import time
from dataclasses import dataclass

from gymapi.v1.errors_pb2 import ErrorReason, ErrorStatus
from gymapi.v1.responses_pb2 import Response, TokenTrace
from gymapi.v1.rollout_service_pb2 import GenerateRequest, GenerateResult
from gymd.convert import unpack_ids
from gymd.convert.wire import delimited, delimited_fields
from gymd.errors import GymdError, error

__all__ = ["Sampled", "completed", "malformed", "response_of", "sampled_of"]

MESSAGE_CHARS = 2000
_PREFIX = "ERROR_REASON_"
_PROMPT = TokenTrace.PROMPT_TOKEN_IDS_FIELD_NUMBER
_GENERATED = TokenTrace.GENERATION_TOKEN_IDS_FIELD_NUMBER
_LOGPROBS = TokenTrace.GENERATION_LOGPROBS_FIELD_NUMBER
# What a model server may fail with. Others, such as PEER_UNREACHABLE, would make the daemon run the rollout
# again.
_REASONS = frozenset(
    (
        "UPSTREAM_AUTH",
        "UPSTREAM_NOT_FOUND",
        "UPSTREAM_REJECTED",
        "UPSTREAM_RATE_LIMITED",
        "UPSTREAM_UNAVAILABLE",
        "UPSTREAM_MALFORMED",
        "INVALID_REQUEST",
        "LIMIT_REACHED",
        "DEADLINE_EXCEEDED",
        "CANCELLED",
        "SERVER_CODE_FAILED",
        "INTERNAL",
    )
)


def response_of(result: GenerateResult, asked: GenerateRequest) -> Response:
    """The response of an answer, with its token ids and policy version on the last item.

    Raises:
        GymdError: the trainer's own error, or UPSTREAM_MALFORMED for an answer that breaks the contract.
    """
    if result.HasField("error"):
        raise _failure(result.error)
    if not result.HasField("response"):
        raise malformed("it holds neither a response nor an error")
    response = result.response
    if result.HasField("token_trace"):
        if not response.output:
            raise malformed("it has token ids and no output item to put them on")
        response.output[-1].token_trace.CopyFrom(result.token_trace)
    completed(response, result, asked)
    return response


@dataclass(frozen=True, slots=True)
class Sampled:
    """What a trainer sampled for a prompt of ids.

    Attributes:
        ids, logprobs: packed; either may be empty.
        rest: what else its trace holds, serialized.
    """

    ids: bytes
    logprobs: bytes
    rest: bytes

    def trace(self, prompt: bytes) -> bytes:
        """The serialized TokenTrace, with the prompt's packed ids."""
        fields = ((_PROMPT, prompt), (_GENERATED, self.ids), (_LOGPROBS, self.logprobs))
        return b"".join(delimited(field, packed) for field, packed in fields) + self.rest


def sampled_of(result: GenerateResult, asked: GenerateRequest, prompt: bytes) -> Sampled:
    """Takes the ids and logprobs off the answer to a prompt, whose packed ids are given.

    Raises:
        GymdError: the trainer's own error, or UPSTREAM_MALFORMED for an answer that breaks the contract.
    """
    if result.HasField("error"):
        raise _failure(result.error)
    response = result.response
    holder = result if result.HasField("token_trace") or not response.output else response.output[-1]
    trace = holder.token_trace
    fields = dict(delimited_fields(trace.SerializeToString()))
    for name in ("prompt_token_ids", "generation_token_ids", "generation_logprobs"):
        trace.ClearField(name)
    rest = trace.SerializeToString()
    holder.ClearField("token_trace")
    told = fields.get(_PROMPT, b"")
    sampled = Sampled(fields.get(_GENERATED, b""), fields.get(_LOGPROBS, b""), rest)
    if told and told != prompt:
        raise malformed(_contradiction(told, prompt))
    if not sampled.ids and not response.HasField("incomplete_details"):
        text = "it was asked with prompt_token_ids, and holds no generation_token_ids"
        raise malformed(f"{text}; without them, incomplete_details say why nothing was sampled")
    wanted = sampled.ids if sampled.logprobs or asked.return_tokens else b""
    if len(sampled.logprobs) != len(wanted):
        raise malformed(_lengths(len(sampled.ids) // 4, len(sampled.logprobs) // 4))
    if (lowest := min(unpack_ids(sampled.ids), default=0)) < 0:
        raise malformed(f"its generated token ids hold {lowest}, and ids begin at 0")
    return sampled


def _contradiction(told: bytes, prompt: bytes) -> str:
    """Where an answer's prompt is another than the one that was asked."""
    one, other = unpack_ids(told), unpack_ids(prompt)
    text = f"its {len(one)} prompt_token_ids are not the {len(other)} that it was asked with"
    for place, (told_id, asked_id) in enumerate(zip(one, other, strict=False)):
        if told_id != asked_id:
            return f"{text}: number {place} is {told_id}, and was {asked_id}"
    return text


def completed(response: Response, result: GenerateResult, asked: GenerateRequest) -> None:
    """Checks a response and fills in what the trainer left out.

    Raises:
        GymdError: UPSTREAM_MALFORMED, it breaks the contract.
    """
    _check_calls(response)
    if response.output and response.output[-1].HasField("token_trace"):
        trace = response.output[-1].token_trace
        _check_trace(trace)
        if result.HasField("policy_version"):
            trace.policy_version = result.policy_version
    if asked.HasField("min_version") and result.policy_version < asked.min_version:
        version = result.policy_version if result.HasField("policy_version") else "unknown"
        raise malformed(f"its policy version is {version}, and at least {asked.min_version} was asked for")
    response.id = response.id or f"resp_{asked.call_id}"
    response.model = response.model or asked.server
    response.created_at = response.created_at or time.time()
    for name in ("temperature", "top_p"):  # noted with the token ids
        if asked.params.HasField(name) and not response.HasField(name):
            setattr(response, name, getattr(asked.params, name))
    if not response.HasField("status"):
        response.status = "incomplete" if response.HasField("incomplete_details") else "completed"


def _check_calls(response: Response) -> None:
    seen = set()
    for number, item in enumerate(response.output):
        kind = item.WhichOneof("kind")
        if kind is None:
            raise malformed(f"output item {number} is of no kind that this daemon knows")
        if kind == "function_call":
            call = item.function_call
            if not call.name or not call.call_id or call.call_id in seen:
                raise malformed(f"function call {number} needs a name and a call_id of its own")
            seen.add(call.call_id)


def _check_trace(trace: TokenTrace) -> None:
    ids, logprobs = len(trace.generation_token_ids), len(trace.generation_logprobs)
    if ids != logprobs:
        raise malformed(_lengths(ids, logprobs))
    if ids and not trace.prompt_token_ids:
        raise malformed("it has generated token ids and no prompt_token_ids")


def _lengths(ids: int, logprobs: int) -> str:
    return f"it has {ids} generated token ids and {logprobs} logprobs"


def _failure(status: ErrorStatus) -> GymdError:
    """The trainer's error under the code that belongs to its reason."""
    name = _reason_name(status.reason)
    message = status.message[:MESSAGE_CHARS] or "the trainer's policy failed and did not say why"
    if name not in _REASONS:
        return malformed(f"it failed with the reason {name}, which is none of a model: {message}")
    delay = status.retry_delay.ToNanoseconds() / 1e9 if status.HasField("retry_delay") else None
    failure = error(name, message, retry_delay=delay)
    failure.metadata.update(status.metadata)
    return failure


def _reason_name(reason: int) -> str:
    try:
        return ErrorReason.Name(reason).removeprefix(_PREFIX)
    except ValueError:
        return str(reason)


def malformed(why: str) -> GymdError:
    """The error for an answer that breaks the contract."""
    return error(
        "UPSTREAM_MALFORMED", f"the trainer's answer breaks the contract: {why}; correct the trainer"
    )
