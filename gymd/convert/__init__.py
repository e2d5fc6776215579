"""OpenAI JSON to gymapi messages and back: the Responses API, and Chat Completions for engines that speak it.

Pure functions. The Responses functions keep every JSON value exactly; the chat functions follow NeMo Gym's
rules and raise ConvertError for what the other side cannot express.
"""

from gymd.convert._errors import ConvertError
from gymd.convert._json import dumps, loads
from gymd.convert.chat import chat_from_params, chat_messages, tokenize_request
from gymd.convert.chat_response import empty_completion, items_from_chat_message, response_from_chat
from gymd.convert.options import ChatOptions
from gymd.convert.packed import PackedLogprobs, load_chat, pack_ids, unpack_ids
from gymd.convert.reasoning import split_think, wrap_think
from gymd.convert.responses import (
    item_from_json,
    item_to_json,
    params_from_json,
    params_to_json,
    response_from_json,
    response_to_json,
    tool_from_json,
    tool_to_json,
    usage_from_json,
    usage_to_json,
)
from gymd.convert.sampling import tell_sampling
from gymd.convert.text import message_text, output_text
from gymd.convert.tokens import make_token_trace, pack_logprobs, trace_ids
from gymd.convert.usage import sum_usage, total_usage, usage_from_chat
from gymd.convert.validate import validate_params

__all__ = [
    "ChatOptions",
    "ConvertError",
    "PackedLogprobs",
    "chat_from_params",
    "chat_messages",
    "dumps",
    "empty_completion",
    "item_from_json",
    "item_to_json",
    "items_from_chat_message",
    "load_chat",
    "loads",
    "make_token_trace",
    "message_text",
    "output_text",
    "pack_ids",
    "pack_logprobs",
    "params_from_json",
    "params_to_json",
    "response_from_chat",
    "response_from_json",
    "response_to_json",
    "split_think",
    "sum_usage",
    "tell_sampling",
    "tokenize_request",
    "tool_from_json",
    "tool_to_json",
    "total_usage",
    "trace_ids",
    "unpack_ids",
    "usage_from_chat",
    "usage_from_json",
    "usage_to_json",
    "validate_params",
    "wrap_think",
]
