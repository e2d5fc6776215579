from google.protobuf import duration_pb2 as _duration_pb2
from gymapi.v1 import responses_pb2 as _responses_pb2
from gymapi.v1 import rollout_pb2 as _rollout_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AgentServiceCreateResponseRequest(_message.Message):
    __slots__ = ("params",)
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    params: _responses_pb2.ResponseCreateParams
    def __init__(self, params: _Optional[_Union[_responses_pb2.ResponseCreateParams, _Mapping]] = ...) -> None: ...

class AgentServiceCreateResponseResponse(_message.Message):
    __slots__ = ("response",)
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    response: _responses_pb2.Response
    def __init__(self, response: _Optional[_Union[_responses_pb2.Response, _Mapping]] = ...) -> None: ...

class Deadlines(_message.Message):
    __slots__ = ("rollout", "queue", "model", "tool", "verify")
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    VERIFY_FIELD_NUMBER: _ClassVar[int]
    rollout: _duration_pb2.Duration
    queue: _duration_pb2.Duration
    model: _duration_pb2.Duration
    tool: _duration_pb2.Duration
    verify: _duration_pb2.Duration
    def __init__(self, rollout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., queue: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., model: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., tool: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., verify: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RunRolloutRequest(_message.Message):
    __slots__ = ("rollout_id", "task_id", "group_id", "index", "attempt", "task", "deadlines", "return_tokens")
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    DEADLINES_FIELD_NUMBER: _ClassVar[int]
    RETURN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    rollout_id: str
    task_id: str
    group_id: str
    index: int
    attempt: int
    task: _rollout_pb2.Task
    deadlines: Deadlines
    return_tokens: bool
    def __init__(self, rollout_id: _Optional[str] = ..., task_id: _Optional[str] = ..., group_id: _Optional[str] = ..., index: _Optional[int] = ..., attempt: _Optional[int] = ..., task: _Optional[_Union[_rollout_pb2.Task, _Mapping]] = ..., deadlines: _Optional[_Union[Deadlines, _Mapping]] = ..., return_tokens: bool = ...) -> None: ...

class RunRolloutResponse(_message.Message):
    __slots__ = ("rollout",)
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    rollout: _rollout_pb2.Rollout
    def __init__(self, rollout: _Optional[_Union[_rollout_pb2.Rollout, _Mapping]] = ...) -> None: ...
