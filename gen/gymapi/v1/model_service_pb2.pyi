from gymapi.v1 import responses_pb2 as _responses_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CreateResponseRequest(_message.Message):
    __slots__ = ("params", "rollout_id", "return_tokens")
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    RETURN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    params: _responses_pb2.ResponseCreateParams
    rollout_id: str
    return_tokens: bool
    def __init__(self, params: _Optional[_Union[_responses_pb2.ResponseCreateParams, _Mapping]] = ..., rollout_id: _Optional[str] = ..., return_tokens: bool = ...) -> None: ...

class CreateResponseResponse(_message.Message):
    __slots__ = ("response",)
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    response: _responses_pb2.Response
    def __init__(self, response: _Optional[_Union[_responses_pb2.Response, _Mapping]] = ...) -> None: ...

class StreamResponseRequest(_message.Message):
    __slots__ = ("params", "rollout_id", "return_tokens")
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    RETURN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    params: _responses_pb2.ResponseCreateParams
    rollout_id: str
    return_tokens: bool
    def __init__(self, params: _Optional[_Union[_responses_pb2.ResponseCreateParams, _Mapping]] = ..., rollout_id: _Optional[str] = ..., return_tokens: bool = ...) -> None: ...

class StreamResponseResponse(_message.Message):
    __slots__ = ("item_started", "text_delta", "item_done", "completed")
    ITEM_STARTED_FIELD_NUMBER: _ClassVar[int]
    TEXT_DELTA_FIELD_NUMBER: _ClassVar[int]
    ITEM_DONE_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    item_started: ItemStarted
    text_delta: TextDelta
    item_done: ItemDone
    completed: ResponseCompleted
    def __init__(self, item_started: _Optional[_Union[ItemStarted, _Mapping]] = ..., text_delta: _Optional[_Union[TextDelta, _Mapping]] = ..., item_done: _Optional[_Union[ItemDone, _Mapping]] = ..., completed: _Optional[_Union[ResponseCompleted, _Mapping]] = ...) -> None: ...

class ItemStarted(_message.Message):
    __slots__ = ("output_index", "item")
    OUTPUT_INDEX_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    output_index: int
    item: _responses_pb2.Item
    def __init__(self, output_index: _Optional[int] = ..., item: _Optional[_Union[_responses_pb2.Item, _Mapping]] = ...) -> None: ...

class TextDelta(_message.Message):
    __slots__ = ("output_index", "delta")
    OUTPUT_INDEX_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    output_index: int
    delta: str
    def __init__(self, output_index: _Optional[int] = ..., delta: _Optional[str] = ...) -> None: ...

class ItemDone(_message.Message):
    __slots__ = ("output_index", "item")
    OUTPUT_INDEX_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    output_index: int
    item: _responses_pb2.Item
    def __init__(self, output_index: _Optional[int] = ..., item: _Optional[_Union[_responses_pb2.Item, _Mapping]] = ...) -> None: ...

class ResponseCompleted(_message.Message):
    __slots__ = ("response",)
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    response: _responses_pb2.Response
    def __init__(self, response: _Optional[_Union[_responses_pb2.Response, _Mapping]] = ...) -> None: ...
