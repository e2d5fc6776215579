"""Model servers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass

from gymapi.v1.model_service_pb2 import (
    CreateResponseRequest,
    CreateResponseResponse,
    StreamResponseRequest,
    StreamResponseResponse,
)
from gymapi.v1.responses_pb2 import Response, ResponseCreateParams
from gymd.mesh import CallContext
from gymd.sdk.base import Server

__all__ = ["ModelCall", "ModelServer"]


@dataclass(slots=True)
class ModelCall:
    """What a model server may know of a call beside the parameters.

    Attributes:
        rollout_id: key for sticky routing and logs; "" means none.
        return_tokens: whether token ids are asked for; None means as configured.
        context: deadline and metadata.
    """

    rollout_id: str
    return_tokens: bool | None
    context: CallContext


class ModelServer(Server):
    """Base of model servers: implement create_response."""

    kind = "model"

    @abstractmethod
    async def create_response(self, params: ResponseCreateParams, call: ModelCall) -> Response:
        """Answers a conversation with the next response.

        `params` is shared with the caller: do not edit it. Raise `gymd.errors.error("UPSTREAM_...", ...)`
        when the endpoint fails; a context overflow is a Response with status `incomplete`.
        """

    def servicer(self) -> ModelServicer:
        """The wire shell."""
        return ModelServicer(self)


class ModelServicer:
    """ModelService over a ModelServer."""

    def __init__(self, server: ModelServer) -> None:
        self._server = server

    async def CreateResponse(
        self, request: CreateResponseRequest, context: CallContext
    ) -> CreateResponseResponse:
        response = await self._server.create_response(request.params, _call(request, context))
        return CreateResponseResponse(response=response)

    async def StreamResponse(
        self, request: StreamResponseRequest, context: CallContext
    ) -> AsyncIterator[StreamResponseResponse]:
        """The whole answer is computed, then told event by event."""
        response = await self._server.create_response(request.params, _call(request, context))
        for index, item in enumerate(response.output):
            event = StreamResponseResponse()
            event.item_started.output_index = index
            event.item_started.item.CopyFrom(item)
            yield event
            if text := _text(item):
                event = StreamResponseResponse()
                event.text_delta.output_index = index
                event.text_delta.delta = text
                yield event
            event = StreamResponseResponse()
            event.item_done.output_index = index
            event.item_done.item.CopyFrom(item)
            yield event
        event = StreamResponseResponse()
        event.completed.response.CopyFrom(response)
        yield event


def _call(request: CreateResponseRequest | StreamResponseRequest, context: CallContext) -> ModelCall:
    wanted = request.return_tokens if request.HasField("return_tokens") else None
    return ModelCall(request.rollout_id, wanted, context)


def _text(item: object) -> str:
    """The text that grows while an item is generated: message text or call arguments."""
    kind = item.WhichOneof("kind")  # type: ignore[attr-defined]
    if kind == "function_call":
        return item.function_call.arguments_json  # type: ignore[attr-defined]
    if kind != "message":
        return ""
    message = item.message  # type: ignore[attr-defined]
    return message.content_text or "".join(part.output_text.text for part in message.content_parts.parts)
