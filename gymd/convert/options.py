"""Settings of the conversion to and from Chat Completions, named as in NeMo Gym's configuration."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ChatOptions"]


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """How a chat endpoint treats reasoning and token ids."""

    uses_reasoning_parser: bool = True
    """The endpoint separates reasoning from content: it is read from `<think>` tags and reasoning fields."""

    uses_interleaved_reasoning: bool = False
    """Earlier reasoning is sent back in the fields `reasoning_content` and `reasoning`. vLLM knows them, a
    hosted endpoint may refuse them."""

    preserve_reasoning_in_assistant_content: bool = False
    """Earlier reasoning stays in the content of assistant messages, in think tags."""

    replace_developer_role_with_system: bool = False
    """Developer messages are sent as system messages, for chat templates that know no developer."""

    return_token_id_information: bool = False
    """Ask for token ids and logprobs, and attach them to the last item of the answer."""

    return_token_ids: bool = False
    """Ask vLLM for ids in `prompt_token_ids` and `token_ids` too, which saves the call of /tokenize."""

    echo_tools: bool = False
    """Repeat instructions, tools and metadata of the request in the response, as OpenAI does. Off, because
    schemas are long and the caller has them."""
