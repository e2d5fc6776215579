"""POST /completions: with a raw prompt, for base models, or with a prompt of ids."""

from __future__ import annotations

from typing import Any

from gymapi.v1.responses_pb2 import ResponseCreateParams
from gymd.convert import ChatOptions, ConvertError, PackedLogprobs, chat_from_params, pack_logprobs

__all__ = ["chat_of_completion", "completion_body", "token_body", "tokenize_body"]

_CHAT_ONLY = frozenset(
    {
        "messages",
        "model",
        "logprobs",
        "top_logprobs",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "reasoning_effort",
        "chat_template_kwargs",
    }
)
# What a bare prompt cannot carry.
_REFUSED = ("tools", "response_format", "reasoning_effort")


def completion_body(params: ResponseCreateParams, options: ChatOptions) -> dict[str, Any]:
    """The body of POST /completions, without `model`.

    Takes one user message with an optional system message before it, text only; else raises ConvertError.
    """
    chat = chat_from_params(params, options)
    for key in _REFUSED:
        if key in chat:
            raise ConvertError(
                "the raw completions API cannot carry it; set use_completions_api to false", key
            )
    return {"prompt": _prompt(chat["messages"]), **_fields(chat)}


def token_body(chat: dict[str, Any], prompt: list[int]) -> dict[str, Any]:
    """The body of POST /completions for a chat request whose prompt is given as ids."""
    body = {"prompt": prompt, **_fields(chat)}
    # What the model writes is taken apart here, and the marks of its parts are special tokens of some models.
    body.setdefault("skip_special_tokens", False)
    body.setdefault("spaces_between_special_tokens", False)
    return body


def _fields(chat: dict[str, Any]) -> dict[str, Any]:
    """The fields of a chat request that the completions API has too."""
    # Fields that the contract does not know (top_k, min_p, guided_...) pass; the two APIs share them.
    fields = {key: value for key, value in chat.items() if key not in _CHAT_ONLY}
    if chat.get("logprobs"):
        fields["logprobs"] = chat.get("top_logprobs", 0)
    return fields


def tokenize_body(body: dict[str, Any]) -> dict[str, Any]:
    """The body of /tokenize for the prompt of a completions request."""
    return {"model": body["model"], "prompt": body["prompt"]}


def chat_of_completion(answer: dict[str, Any]) -> dict[str, Any]:
    """The chat completion that stands for a completion."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise ConvertError("expected a list of choices", "choices")
    choice = choices[0]
    text = choice.get("text")
    if not isinstance(text, str):
        raise ConvertError("expected a string", "choices[0].text")
    made: dict[str, Any] = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": choice.get("finish_reason"),
        "logprobs": _chat_logprobs(choice.get("logprobs")),
    }
    whole = {key: answer.get(key) for key in ("id", "model", "usage")}
    # vLLM reports the ids of the prompt per choice here, and once for all choices in the chat API.
    if choice.get("token_ids") is not None:
        made["token_ids"] = choice["token_ids"]
        whole["prompt_token_ids"] = choice.get("prompt_token_ids")
    return {**whole, "choices": [made, *choices[1:]]}


def _prompt(messages: list[dict[str, Any]]) -> str:
    roles = [message["role"] for message in messages]
    if roles not in (["user"], ["system", "user"], ["developer", "user"]):
        found = ", ".join(roles) or "nothing"
        raise ConvertError(
            "the raw completions API takes one user message, with at most one system message before it; "
            f"found: {found}",
            "input",
        )
    return "\n\n".join(_text(message["content"]) for message in messages)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    texts = []
    for part in content:
        if part.get("type") != "text":
            raise ConvertError(f"the raw completions API takes text only, got {part.get('type')}", "input")
        texts.append(part["text"])
    return "".join(texts)


def _chat_logprobs(logprobs: Any) -> PackedLogprobs | None:
    """Logprobs as the conversion from chat takes them."""
    if not isinstance(logprobs, dict):
        return None
    tokens, values = logprobs.get("tokens"), logprobs.get("token_logprobs")
    if not isinstance(tokens, list) or not isinstance(values, list) or len(tokens) != len(values):
        raise ConvertError("expected tokens and token_logprobs of equal length", "choices[0].logprobs")
    return pack_logprobs(tokens, values, "choices[0].logprobs")
