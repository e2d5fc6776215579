"""What rules may know of a call, read from the conversation once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gymapi.v1.responses_pb2 import FunctionTool, ResponseCreateParams
from gymd.convert import message_text

__all__ = ["Request", "read_request"]


@dataclass(slots=True)
class Request:
    """A call as a script sees it.

    Attributes:
        params: everything that was asked; shared with the caller, not to be edited.
        rollout_id: id of the rollout; "" if the caller named none.
        turn: number of this model call in the conversation, from 0.
        tool_outputs: tool outputs since the last user message.
        user_text: text of the last user message.
        output_text: the last tool output; "" if there is none.
    """

    params: ResponseCreateParams
    rollout_id: str
    turn: int = 0
    tool_outputs: int = 0
    user_text: str = ""
    output_text: str = ""

    @property
    def tools(self) -> Sequence[FunctionTool]:
        """The function tools that are offered."""
        return [tool.function for tool in self.params.tools if tool.HasField("function")]


def read_request(params: ResponseCreateParams, rollout_id: str) -> Request:
    """Counts turns and finds the texts. Stateless: the history says which turn it is."""
    request = Request(params, rollout_id)
    if params.WhichOneof("input") == "input_text":
        request.user_text = params.input_text
        return request
    within_turn = False
    user = None
    for item in params.input_items.items:
        kind = item.WhichOneof("kind")
        if kind == "function_call_output":
            request.tool_outputs += 1
            request.output_text = item.function_call_output.output_text
            within_turn = False
        elif kind == "message" and item.message.role != "assistant":
            within_turn = False
            if item.message.role == "user":
                user, request.tool_outputs = item.message, 0
        elif not within_turn:  # what the model made: message, reasoning, calls
            within_turn = True
            request.turn += 1
    if user is not None:
        request.user_text = message_text(user)
    return request
