from google.protobuf import duration_pb2 as _duration_pb2
from gymapi.v1 import responses_pb2 as _responses_pb2
from gymapi.v1 import rollout_pb2 as _rollout_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListToolsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListToolsResponse(_message.Message):
    __slots__ = ("tools",)
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    tools: _containers.RepeatedCompositeFieldContainer[_responses_pb2.FunctionTool]
    def __init__(self, tools: _Optional[_Iterable[_Union[_responses_pb2.FunctionTool, _Mapping]]] = ...) -> None: ...

class SeedSessionRequest(_message.Message):
    __slots__ = ("session_id", "task", "idle_timeout", "request_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    IDLE_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    task: _rollout_pb2.Task
    idle_timeout: _duration_pb2.Duration
    request_id: str
    def __init__(self, session_id: _Optional[str] = ..., task: _Optional[_Union[_rollout_pb2.Task, _Mapping]] = ..., idle_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class SeedSessionResponse(_message.Message):
    __slots__ = ("tools",)
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    tools: _containers.RepeatedCompositeFieldContainer[_responses_pb2.FunctionTool]
    def __init__(self, tools: _Optional[_Iterable[_Union[_responses_pb2.FunctionTool, _Mapping]]] = ...) -> None: ...

class CallToolRequest(_message.Message):
    __slots__ = ("session_id", "call_id", "name", "arguments_json")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    call_id: str
    name: str
    arguments_json: str
    def __init__(self, session_id: _Optional[str] = ..., call_id: _Optional[str] = ..., name: _Optional[str] = ..., arguments_json: _Optional[str] = ...) -> None: ...

class CallToolResponse(_message.Message):
    __slots__ = ("output", "output_parts", "is_error")
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_PARTS_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    output: str
    output_parts: _containers.RepeatedCompositeFieldContainer[_responses_pb2.ContentPart]
    is_error: bool
    def __init__(self, output: _Optional[str] = ..., output_parts: _Optional[_Iterable[_Union[_responses_pb2.ContentPart, _Mapping]]] = ..., is_error: bool = ...) -> None: ...

class VerifyRequest(_message.Message):
    __slots__ = ("session_id", "task", "response", "outcome")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    task: _rollout_pb2.Task
    response: _responses_pb2.Response
    outcome: _rollout_pb2.Outcome
    def __init__(self, session_id: _Optional[str] = ..., task: _Optional[_Union[_rollout_pb2.Task, _Mapping]] = ..., response: _Optional[_Union[_responses_pb2.Response, _Mapping]] = ..., outcome: _Optional[_Union[_rollout_pb2.Outcome, str]] = ...) -> None: ...

class VerifyResponse(_message.Message):
    __slots__ = ("reward",)
    REWARD_FIELD_NUMBER: _ClassVar[int]
    reward: _rollout_pb2.Reward
    def __init__(self, reward: _Optional[_Union[_rollout_pb2.Reward, _Mapping]] = ...) -> None: ...

class CloseSessionRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class CloseSessionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AggregateMetricsRequest(_message.Message):
    __slots__ = ("rollouts",)
    ROLLOUTS_FIELD_NUMBER: _ClassVar[int]
    rollouts: _containers.RepeatedCompositeFieldContainer[ScoredRollout]
    def __init__(self, rollouts: _Optional[_Iterable[_Union[ScoredRollout, _Mapping]]] = ...) -> None: ...

class ScoredRollout(_message.Message):
    __slots__ = ("task_id", "index", "reward")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    index: int
    reward: _rollout_pb2.Reward
    def __init__(self, task_id: _Optional[str] = ..., index: _Optional[int] = ..., reward: _Optional[_Union[_rollout_pb2.Reward, _Mapping]] = ...) -> None: ...

class AggregateMetricsResponse(_message.Message):
    __slots__ = ("metrics_json", "key_metrics")
    METRICS_JSON_FIELD_NUMBER: _ClassVar[int]
    KEY_METRICS_FIELD_NUMBER: _ClassVar[int]
    metrics_json: str
    key_metrics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, metrics_json: _Optional[str] = ..., key_metrics: _Optional[_Iterable[str]] = ...) -> None: ...
