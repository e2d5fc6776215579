from google.protobuf import duration_pb2 as _duration_pb2
from gymapi.v1 import responses_pb2 as _responses_pb2
from gymapi.v1 import rollout_pb2 as _rollout_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StopMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STOP_MODE_UNSPECIFIED: _ClassVar[StopMode]
    STOP_MODE_ABORT: _ClassVar[StopMode]
    STOP_MODE_PARTIAL: _ClassVar[StopMode]
    STOP_MODE_FINISH_TURN: _ClassVar[StopMode]
STOP_MODE_UNSPECIFIED: StopMode
STOP_MODE_ABORT: StopMode
STOP_MODE_PARTIAL: StopMode
STOP_MODE_FINISH_TURN: StopMode

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
    __slots__ = ("rollout_id", "task_id", "group_id", "index", "attempt", "task", "deadlines", "return_tokens", "policy_session", "policy_version")
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    DEADLINES_FIELD_NUMBER: _ClassVar[int]
    RETURN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    POLICY_SESSION_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    rollout_id: str
    task_id: str
    group_id: str
    index: int
    attempt: int
    task: _rollout_pb2.Task
    deadlines: Deadlines
    return_tokens: bool
    policy_session: str
    policy_version: int
    def __init__(self, rollout_id: _Optional[str] = ..., task_id: _Optional[str] = ..., group_id: _Optional[str] = ..., index: _Optional[int] = ..., attempt: _Optional[int] = ..., task: _Optional[_Union[_rollout_pb2.Task, _Mapping]] = ..., deadlines: _Optional[_Union[Deadlines, _Mapping]] = ..., return_tokens: bool = ..., policy_session: _Optional[str] = ..., policy_version: _Optional[int] = ...) -> None: ...

class RunRolloutResponse(_message.Message):
    __slots__ = ("rollout",)
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    rollout: _rollout_pb2.Rollout
    def __init__(self, rollout: _Optional[_Union[_rollout_pb2.Rollout, _Mapping]] = ...) -> None: ...

class RolloutAttempt(_message.Message):
    __slots__ = ("rollout_id", "attempt", "policy_session")
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    POLICY_SESSION_FIELD_NUMBER: _ClassVar[int]
    rollout_id: str
    attempt: int
    policy_session: str
    def __init__(self, rollout_id: _Optional[str] = ..., attempt: _Optional[int] = ..., policy_session: _Optional[str] = ...) -> None: ...

class StopRolloutsRequest(_message.Message):
    __slots__ = ("rollouts", "mode", "reason")
    ROLLOUTS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    rollouts: _containers.RepeatedCompositeFieldContainer[RolloutAttempt]
    mode: StopMode
    reason: str
    def __init__(self, rollouts: _Optional[_Iterable[_Union[RolloutAttempt, _Mapping]]] = ..., mode: _Optional[_Union[StopMode, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class StopRolloutsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UpdatePolicyRequest(_message.Message):
    __slots__ = ("policy_session", "live_version", "hold_calls", "abort_calls")
    POLICY_SESSION_FIELD_NUMBER: _ClassVar[int]
    LIVE_VERSION_FIELD_NUMBER: _ClassVar[int]
    HOLD_CALLS_FIELD_NUMBER: _ClassVar[int]
    ABORT_CALLS_FIELD_NUMBER: _ClassVar[int]
    policy_session: str
    live_version: int
    hold_calls: bool
    abort_calls: bool
    def __init__(self, policy_session: _Optional[str] = ..., live_version: _Optional[int] = ..., hold_calls: bool = ..., abort_calls: bool = ...) -> None: ...

class UpdatePolicyResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
