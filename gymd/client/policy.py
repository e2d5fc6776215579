"""A policy inside the trainer: a function that answers the model calls of the trainer's own rollouts.

The function takes a `GenerateCall` and returns text, a `Generated` or a Response. It may be async; a plain
one runs in a thread. A function over lists gets whatever waits at the moment, as a batched model wants it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import orjson

from gymapi.v1.responses_pb2 import Item, Response, ResponseCreateParams, SamplingParams
from gymapi.v1.rollout_service_pb2 import (
    GenerateRequest,
    GenerateRequests,
    GenerateResult,
    StreamRolloutsRequest,
)
from gymd.convert import ConvertError, chat_from_params, chat_messages, make_token_trace
from gymd.errors import GymdError, error, to_status_message

__all__ = ["BatchPolicyFunction", "GenerateCall", "Generated", "PolicyFunction", "PolicyRunner", "ToolCall"]

log = logging.getLogger(__name__)

FRAME_ANSWERS = 64
FRAME_BYTES = 1024 * 1024
"""A frame of answers is closed at either of these."""

_ECHOED = ("temperature", "top_p")  # what a Response itself says of the sampling


class GenerateCall:
    """One model call of a rollout.

    Attributes:
        params: the conversation, the tools and the sampling parameters; not to be edited. Only the last
            where the prompt comes as ids, because the model server has a tokenizer.
        rollout_id: the rollout it is for.
        server: the model server that the agent asked.
        return_tokens: whether token ids and logprobs are asked for; None: nobody said.
        min_version: lowest version of the policy that may answer; None: any.
        deadline: Unix time after which nobody waits for the answer.
        policy_version: the trainer's version when this call began to be answered; None: unknown.
        cancelled: nobody waits for the answer any more; a long generation may look at it now and then.
    """

    def __init__(self, request: GenerateRequest) -> None:
        self.call_id = request.call_id
        self.params: ResponseCreateParams = request.params
        self.rollout_id = request.rollout_id
        self.server = request.server
        self._prompt = request.prompt_token_ids
        self.return_tokens = request.return_tokens if request.HasField("return_tokens") else None
        self.min_version = request.min_version if request.HasField("min_version") else None
        self.deadline = time.time() + request.time_left.ToNanoseconds() / 1e9
        self.policy_version: int | None = None
        self.cancelled = False

    @cached_property
    def prompt_token_ids(self) -> list[int]:
        """The whole prompt, if the model server has a tokenizer; else empty.

        It begins with the ids of the turns before, as they were sampled. Answer with the ids that are sampled
        behind it: `Generated(token_ids=..., logprobs=...)`.
        """
        return list(self._prompt)

    @cached_property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation as chat templates want it, content that is only text as one string.

        Raises:
            ConvertError: it holds something that chat cannot express, or came as prompt_token_ids.
        """
        self._check_items()
        messages = chat_messages(self.params)
        for message in messages:
            message["content"] = _plain(message.get("content"))
        return messages

    @cached_property
    def tools(self) -> list[dict[str, Any]]:
        """The tools as chat templates want them; empty if there are none.

        Raises:
            ConvertError: they came as part of prompt_token_ids.
        """
        self._check_items()
        tools: list[dict[str, Any]] = chat_from_params(self.params).get("tools") or []
        return tools

    def _check_items(self) -> None:
        if self._prompt:
            raise ConvertError(
                f"the prompt of this call came as prompt_token_ids, because {self.server!r} has a tokenizer; "
                "sample from them, or take `tokenizer` out of its configuration"
            )

    def time_left(self) -> float:
        """Seconds until the deadline, never negative."""
        return max(0.0, self.deadline - time.time())


@dataclass(frozen=True)
class ToolCall:
    """A tool that the policy calls."""

    name: str
    arguments: Mapping[str, Any] | str = "{}"
    """As an object, or the very text that the policy wrote."""
    call_id: str = ""
    """"": made up."""


@dataclass(frozen=True)
class Generated:
    """What the policy generated for one call.

    A call with prompt_token_ids needs token_ids and logprobs only: text and tool calls are read from the ids.
    Those that are given all the same are taken as they are.
    """

    text: str = ""
    tool_calls: Sequence[ToolCall] = ()
    token_ids: Sequence[int] | None = None
    """Ids that were sampled, in order, the stop token included; then `logprobs` and `prompt_token_ids` belong
    to it."""
    logprobs: Sequence[float] | None = None
    """Natural logarithm of the probability of each of token_ids when it was sampled."""
    prompt_token_ids: Sequence[int] | None = None
    """Ids of the whole prompt. Begin a later turn's with those of the turn before and what it sampled, then
    the rollout is one sequence to train on. Absent: those of the call, which no others may contradict."""
    finish_reason: str = "stop"
    """`length`: cut off by a limit of tokens; any other word: it came to its end."""
    policy_version: int | None = None
    """Version that sampled; None: the trainer's `policy_version` when the call began."""
    sampling: Mapping[str, float | None] = field(default_factory=dict)
    """What shaped the sampling, to be noted with the ids: `top_k`, `min_p`, `repetition_penalty`,
    `presence_penalty`, `frequency_penalty`, `seed`; `temperature` and `top_p` where they are not those of the
    call. None is as good as absent: not stated."""


Answer = str | Generated | Response
PolicyFunction = Callable[[GenerateCall], Answer | Awaitable[Answer]]
BatchPolicyFunction = Callable[[list[GenerateCall]], Sequence[Answer] | Awaitable[Sequence[Answer]]]


@dataclass
class _Running:
    """A call under way."""

    call: GenerateCall
    task: asyncio.Task[None] | None = field(default=None)


class PolicyRunner:
    """Runs the policy for the calls that come in; part of a Trainer.

    Args:
        policy: answers one call.
        policy_batch: answers a list of them, in their order. Give one of the two.
        max_batch: longest list.
        threads: how many calls a plain `policy` answers at a time; more than one needs a policy that may be
            called so.
        version: the version of the policy now, or None.
    """

    def __init__(
        self,
        policy: PolicyFunction | None,
        policy_batch: BatchPolicyFunction | None = None,
        *,
        max_batch: int = 64,
        threads: int = 1,
        version: Callable[[], int | None] = lambda: None,
    ) -> None:
        if (policy is None) == (policy_batch is None):
            raise ValueError("give either policy or policy_batch")
        if max_batch < 1 or threads < 1:
            raise ValueError(f"max_batch and threads must be at least 1, not {max_batch} and {threads}")
        self._policy = policy
        self._policy_batch = policy_batch
        self._max_batch = max_batch
        self._version = version
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="gymd-policy")
        self._running: dict[str, _Running] = {}
        self._queue: dict[str, GenerateCall] = {}  # for the batch function, in order
        self._batches: asyncio.Task[None] | None = None
        self._batch: tuple[list[GenerateCall], asyncio.Task[Any]] | None = None  # that runs
        self._unsent: deque[GenerateResult] = deque()  # bounded by the daemon's max_in_flight
        self._wake: Callable[[], None] = lambda: None
        self.bug: Exception | None = None
        """The first exception of the policy that is no GymdError."""

    def bind(self, wake: Callable[[], None]) -> None:
        """Takes what to call when an answer is ready."""
        self._wake = wake

    def take(self, frame: GenerateRequests) -> None:
        """Begins calls and gives others up."""
        for call_id in frame.cancelled_call_ids:
            self._give_up(call_id)
        known = {result.call_id for result in self._unsent} if self._unsent else ()
        for request in frame.requests:
            # After a broken stream a call comes again that is under way here, or answered and not yet sent.
            if request.call_id not in self._running and request.call_id not in known:
                self._begin(GenerateCall(request))

    def next_frame(self) -> StreamRolloutsRequest | None:
        """The next answers to write, or None."""
        if not self._unsent:
            return None
        frame = StreamRolloutsRequest()
        results, room = frame.generate_results.results, FRAME_BYTES
        while self._unsent and len(results) < FRAME_ANSWERS:
            size = self._unsent[0].ByteSize()
            if results and size > room:
                break
            room -= size
            results.append(self._unsent.popleft())
        return frame

    async def stop(self) -> None:
        """Gives everything up. A thread that runs is not waited for."""
        tasks = [running.task for running in self._running.values() if running.task is not None]
        for call_id in list(self._running):
            self._give_up(call_id)
        if self._batches is not None:
            self._batches.cancel()
            tasks.append(self._batches)
        await asyncio.gather(*tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    # ---- running

    def _begin(self, call: GenerateCall) -> None:
        running = self._running[call.call_id] = _Running(call)
        loop = asyncio.get_running_loop()
        if self._policy is not None:
            running.task = loop.create_task(self._run_one(self._policy, call))
            return
        self._queue[call.call_id] = call
        if self._batches is None or self._batches.done():
            self._batches = loop.create_task(self._run_batches())

    def _give_up(self, call_id: str) -> None:
        running = self._running.pop(call_id, None)
        if running is None:
            return
        running.call.cancelled = True
        self._queue.pop(call_id, None)
        if running.task is not None:
            running.task.cancel()
        if self._batch is not None and all(call.cancelled for call in self._batch[0]):
            self._batch[1].cancel()

    async def _run_one(self, policy: PolicyFunction, call: GenerateCall) -> None:
        limit = asyncio.timeout(call.time_left())
        try:
            async with limit:
                answer = await self._called(policy, call, [call])
        except TimeoutError as late:  # the deadline's, or the policy's own
            self._finish(call, _too_late() if limit.expired() else late)
        except Exception as failure:
            self._finish(call, failure)
        else:
            self._finish(call, answer)

    async def _run_batches(self) -> None:
        """Answers what waits, then what came meanwhile, until nothing waits."""
        assert self._policy_batch is not None
        while self._queue:
            calls = list(self._queue.values())[: self._max_batch]
            for call in calls:
                del self._queue[call.call_id]
            for call in [call for call in calls if not call.time_left()]:
                calls.remove(call)
                self._finish(call, _too_late())
            try:
                found = await self._batched(self._policy_batch, calls) if calls else ()
                answers: list[Answer | Exception] = list(found)
                if len(answers) != len(calls):
                    raise ValueError(
                        f"policy_batch got {len(calls)} calls and returned {len(answers)} answers"
                    )
            except Exception as failure:
                answers = [failure] * len(calls)
            for call, answer in zip(calls, answers, strict=True):
                self._finish(call, answer)

    async def _batched(self, function: BatchPolicyFunction, calls: list[GenerateCall]) -> Sequence[Answer]:
        """The answers to a batch; none if all of it was given up, and could be."""
        work = asyncio.ensure_future(self._called(function, calls, calls))
        if inspect.iscoroutinefunction(function):  # else it may be no other begins before it ends
            self._batch = (calls, work)
        try:
            return await work
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return [""] * len(calls)  # nobody waits for them
        finally:
            self._batch = None

    async def _called(self, function: Callable[[Any], Any], argument: Any, calls: list[GenerateCall]) -> Any:
        def begin() -> Any:
            version = self._version()
            for call in calls:
                call.policy_version = version
            return function(argument)

        def begin_in_thread() -> Any:
            try:
                return begin()
            except (StopIteration, SystemExit) as end:
                # No future takes the one, so that the call would never be answered. The other would end the
                # event loop in the middle of everything, and not the program.
                raise RuntimeError(f"the policy raised {type(end).__name__}") from end

        try:
            if inspect.iscoroutinefunction(function):
                return await begin()
            # The version is read in the thread: the call may wait long for one.
            answer = await asyncio.get_running_loop().run_in_executor(self._threads, begin_in_thread)
            return await answer if inspect.isawaitable(answer) else answer
        except asyncio.CancelledError as cancelled:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # nobody waits for the answer any more
            text = "the policy was cancelled, or something that it awaits"
            raise RuntimeError(text) from cancelled

    def _finish(self, call: GenerateCall, answer: Answer | Exception) -> None:
        if self._running.pop(call.call_id, None) is None:
            return  # given up
        try:
            if isinstance(answer, Exception):
                raise answer
            result = _encode(call, answer)
        except Exception as failure:
            result = GenerateResult(call_id=call.call_id)
            result.error.CopyFrom(to_status_message(self._blame(failure)))
        self._unsent.append(result)
        self._wake()

    def _blame(self, failure: Exception) -> GymdError:
        if isinstance(failure, GymdError):
            return failure
        if self.bug is None:
            log.error("policy_failed", exc_info=failure)
            self.bug = failure
        kind = type(failure).__name__
        text = f"the trainer's policy raised {kind}: {failure}"
        return error("SERVER_CODE_FAILED", text, exception=kind, where="policy")


def _too_late() -> GymdError:
    return error("DEADLINE_EXCEEDED", "the trainer's policy did not answer before the call's deadline")


def _plain(content: Any) -> Any:
    """The text of content parts that are all text; anything else as it is."""
    if isinstance(content, list) and all(part.get("type") == "text" for part in content):
        return "".join(part["text"] for part in content)
    return content


# ---- answers


def _encode(call: GenerateCall, answer: Answer) -> GenerateResult:
    """The answer as a message; raises TypeError or ValueError for what is none."""
    result = GenerateResult(call_id=call.call_id)
    if call.policy_version is not None:
        result.policy_version = call.policy_version
    if isinstance(answer, Response):
        result.response.CopyFrom(answer)
        return result
    if isinstance(answer, str):
        answer = Generated(answer)
    if not isinstance(answer, Generated):
        kind = type(answer).__name__
        raise TypeError(f"a policy returns text, a Generated or a Response, not {kind}")
    if answer.policy_version is not None:
        result.policy_version = answer.policy_version
    if call.prompt_token_ids:
        _encode_sampled(result, call, answer)
    else:
        if answer.token_ids is not None:
            if answer.logprobs is None or answer.prompt_token_ids is None:
                raise ValueError("token_ids need logprobs and prompt_token_ids beside them")
            trace = make_token_trace(answer.prompt_token_ids, answer.token_ids, answer.logprobs)
            result.token_trace.CopyFrom(trace)
        _fill(result.response, call, answer)
    _encode_sampling(result, answer.sampling)
    return result


def _encode_sampled(result: GenerateResult, call: GenerateCall, answer: Generated) -> None:
    """The answer to a prompt of ids, which does not travel back."""
    if answer.token_ids is None or answer.logprobs is None:
        raise ValueError("the call came with prompt_token_ids: answer with token_ids and logprobs")
    prompt = answer.prompt_token_ids
    if prompt is not None and list(prompt) != call.prompt_token_ids:
        raise ValueError(
            f"the {len(prompt)} prompt_token_ids of the answer are not the {len(call.prompt_token_ids)} of "
            "the call; leave them out"
        )
    result.token_trace.MergeFrom(make_token_trace((), answer.token_ids, answer.logprobs))
    if answer.finish_reason == "length":
        result.response.incomplete_details.reason = "max_output_tokens"
    if answer.text or answer.tool_calls:
        result.response.output.extend(_items(call, answer))


def _encode_sampling(result: GenerateResult, sampling: Mapping[str, float | None]) -> None:
    """Notes how the answer was sampled: temperature and top-p in the response, the rest with the ids."""
    told = SamplingParams()
    for name, value in sampling.items():
        if value is None:
            continue
        if name in _ECHOED:
            setattr(result.response, name, value)
        elif name in SamplingParams.DESCRIPTOR.fields_by_name:
            setattr(told, name, value)
        else:
            known = ", ".join((*_ECHOED, *SamplingParams.DESCRIPTOR.fields_by_name))
            raise ValueError(f"`sampling` of the answer holds {name!r}; it can hold {known}")
    if told.ListFields() and result.HasField("token_trace"):
        result.token_trace.sampling.CopyFrom(told)


def _fill(response: Response, call: GenerateCall, answer: Generated) -> None:
    response.id = f"resp_{call.call_id}"
    response.created_at = time.time()
    response.model = call.server
    response.status = "completed"
    if answer.finish_reason == "length":
        response.status = "incomplete"
        response.incomplete_details.reason = "max_output_tokens"
    response.output.extend(_items(call, answer))
    for name in _ECHOED:
        if call.params.HasField(name):
            setattr(response, name, getattr(call.params, name))
    if answer.token_ids is not None and answer.prompt_token_ids is not None:
        usage = response.usage
        usage.input_tokens, usage.output_tokens = len(answer.prompt_token_ids), len(answer.token_ids)
        usage.total_tokens = usage.input_tokens + usage.output_tokens
        usage.input_tokens_details.cached_tokens = 0
        usage.output_tokens_details.reasoning_tokens = 0


def _items(call: GenerateCall, answer: Generated) -> list[Item]:
    items = []
    if answer.text or not answer.tool_calls:
        message = Item().message
        message.id, message.role, message.status = f"msg_{call.call_id}", "assistant", "completed"
        message.content_parts.parts.add().output_text.text = answer.text
        items.append(Item(message=message))
    for number, tool in enumerate(answer.tool_calls):
        written = tool.arguments if isinstance(tool.arguments, str) else orjson.dumps(tool.arguments).decode()
        function = {
            "id": f"fc_{call.call_id}_{number}",
            "call_id": tool.call_id or f"call_{call.call_id}_{number}",
            "name": tool.name,
            "arguments_json": written,
            "status": "completed",
        }
        items.append(Item(function_call=function))
    return items
