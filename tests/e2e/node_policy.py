"""The policy of the Node test: counts as it is told, with one call of a tool that does not exist."""

from __future__ import annotations

import json

from gymapi.v1.responses_pb2 import Response, ResponseCreateParams
from gymd.sdk import ModelCall, ModelServer
from gymd.sdk.testing import function_call, make_response

__all__ = ["CountingPolicy"]


class CountingPolicy(ModelServer):
    """Turn 1: adds the number in the user's message. Turn 2: reads the counter. Turn 3: says what it read."""

    async def create_response(self, params: ResponseCreateParams, call: ModelCall) -> Response:
        """Answers by what the tools said so far."""
        items = params.input_items.items
        outputs = [i.function_call_output.output_text for i in items if i.HasField("function_call_output")]
        if not outputs:
            text = params.input_text or items[0].message.content_text
            # A tool named like an RPC is just an unknown tool; malformed arguments are the model's to read.
            return make_response(
                function_call("increment_counter", {"count": int(text.split()[-1])}),
                function_call("verify"),
                function_call("increment_counter", '{"count": "two"}'),
            )
        if len(outputs) == 3:
            return make_response(function_call("get_counter_value"))
        return make_response(f"the counter is {json.loads(outputs[-1])['count']}")
