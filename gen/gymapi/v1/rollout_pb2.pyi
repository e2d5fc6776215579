from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from gymapi.v1 import errors_pb2 as _errors_pb2
from gymapi.v1 import responses_pb2 as _responses_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_COMPLETED: _ClassVar[Outcome]
    OUTCOME_TRUNCATED_TOKENS: _ClassVar[Outcome]
    OUTCOME_TRUNCATED_TURNS: _ClassVar[Outcome]
    OUTCOME_TIMED_OUT: _ClassVar[Outcome]
    OUTCOME_CANCELLED: _ClassVar[Outcome]
    OUTCOME_STALE: _ClassVar[Outcome]
    OUTCOME_PARTIAL: _ClassVar[Outcome]
    OUTCOME_ENV_FAILED: _ClassVar[Outcome]
    OUTCOME_MODEL_FAILED: _ClassVar[Outcome]
    OUTCOME_VERIFY_FAILED: _ClassVar[Outcome]
    OUTCOME_INVALID_TASK: _ClassVar[Outcome]
    OUTCOME_EMPTY: _ClassVar[Outcome]

class FailureClass(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FAILURE_CLASS_UNSPECIFIED: _ClassVar[FailureClass]
    FAILURE_CLASS_INFRA: _ClassVar[FailureClass]
    FAILURE_CLASS_DATA: _ClassVar[FailureClass]
    FAILURE_CLASS_POLICY: _ClassVar[FailureClass]
    FAILURE_CLASS_CLIENT: _ClassVar[FailureClass]

class Stage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STAGE_UNSPECIFIED: _ClassVar[Stage]
    STAGE_QUEUE: _ClassVar[Stage]
    STAGE_SEED: _ClassVar[Stage]
    STAGE_MODEL: _ClassVar[Stage]
    STAGE_TOOL: _ClassVar[Stage]
    STAGE_VERIFY: _ClassVar[Stage]
    STAGE_TRANSPORT: _ClassVar[Stage]
    STAGE_AGENT: _ClassVar[Stage]

class Drift(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DRIFT_UNSPECIFIED: _ClassVar[Drift]
    DRIFT_CLEAN: _ClassVar[Drift]
    DRIFT_REALIGNED: _ClassVar[Drift]
    DRIFT_FORKED: _ClassVar[Drift]
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_COMPLETED: Outcome
OUTCOME_TRUNCATED_TOKENS: Outcome
OUTCOME_TRUNCATED_TURNS: Outcome
OUTCOME_TIMED_OUT: Outcome
OUTCOME_CANCELLED: Outcome
OUTCOME_STALE: Outcome
OUTCOME_PARTIAL: Outcome
OUTCOME_ENV_FAILED: Outcome
OUTCOME_MODEL_FAILED: Outcome
OUTCOME_VERIFY_FAILED: Outcome
OUTCOME_INVALID_TASK: Outcome
OUTCOME_EMPTY: Outcome
FAILURE_CLASS_UNSPECIFIED: FailureClass
FAILURE_CLASS_INFRA: FailureClass
FAILURE_CLASS_DATA: FailureClass
FAILURE_CLASS_POLICY: FailureClass
FAILURE_CLASS_CLIENT: FailureClass
STAGE_UNSPECIFIED: Stage
STAGE_QUEUE: Stage
STAGE_SEED: Stage
STAGE_MODEL: Stage
STAGE_TOOL: Stage
STAGE_VERIFY: Stage
STAGE_TRANSPORT: Stage
STAGE_AGENT: Stage
DRIFT_UNSPECIFIED: Drift
DRIFT_CLEAN: Drift
DRIFT_REALIGNED: Drift
DRIFT_FORKED: Drift

class Task(_message.Message):
    __slots__ = ("agent", "create_params", "fields_json")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    CREATE_PARAMS_FIELD_NUMBER: _ClassVar[int]
    FIELDS_JSON_FIELD_NUMBER: _ClassVar[int]
    agent: str
    create_params: _responses_pb2.ResponseCreateParams
    fields_json: str
    def __init__(self, agent: _Optional[str] = ..., create_params: _Optional[_Union[_responses_pb2.ResponseCreateParams, _Mapping]] = ..., fields_json: _Optional[str] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("failure_class", "stage", "status", "upstream_status", "upstream_body", "retriable", "attempts")
    FAILURE_CLASS_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_STATUS_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_BODY_FIELD_NUMBER: _ClassVar[int]
    RETRIABLE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    failure_class: FailureClass
    stage: Stage
    status: _errors_pb2.ErrorStatus
    upstream_status: int
    upstream_body: str
    retriable: bool
    attempts: _containers.RepeatedCompositeFieldContainer[FailedAttempt]
    def __init__(self, failure_class: _Optional[_Union[FailureClass, str]] = ..., stage: _Optional[_Union[Stage, str]] = ..., status: _Optional[_Union[_errors_pb2.ErrorStatus, _Mapping]] = ..., upstream_status: _Optional[int] = ..., upstream_body: _Optional[str] = ..., retriable: bool = ..., attempts: _Optional[_Iterable[_Union[FailedAttempt, _Mapping]]] = ...) -> None: ...

class FailedAttempt(_message.Message):
    __slots__ = ("attempt", "fail_time", "status")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FAIL_TIME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    fail_time: _timestamp_pb2.Timestamp
    status: _errors_pb2.ErrorStatus
    def __init__(self, attempt: _Optional[int] = ..., fail_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., status: _Optional[_Union[_errors_pb2.ErrorStatus, _Mapping]] = ...) -> None: ...

class Reward(_message.Message):
    __slots__ = ("value", "components", "extras_json", "use_for_loss", "use_for_baseline")
    class ComponentsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    VALUE_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    EXTRAS_JSON_FIELD_NUMBER: _ClassVar[int]
    USE_FOR_LOSS_FIELD_NUMBER: _ClassVar[int]
    USE_FOR_BASELINE_FIELD_NUMBER: _ClassVar[int]
    value: float
    components: _containers.ScalarMap[str, float]
    extras_json: str
    use_for_loss: bool
    use_for_baseline: bool
    def __init__(self, value: _Optional[float] = ..., components: _Optional[_Mapping[str, float]] = ..., extras_json: _Optional[str] = ..., use_for_loss: bool = ..., use_for_baseline: bool = ...) -> None: ...

class TokenSpan(_message.Message):
    __slots__ = ("start", "length")
    START_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    start: int
    length: int
    def __init__(self, start: _Optional[int] = ..., length: _Optional[int] = ...) -> None: ...

class TokenSegment(_message.Message):
    __slots__ = ("parent", "token_ids", "sampled_spans", "logprobs", "policy_version", "temperature", "top_p", "finish_reason", "drift", "dropped_token_count", "item_indices", "shared_token_count", "sampling")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_SPANS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    DRIFT_FIELD_NUMBER: _ClassVar[int]
    DROPPED_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    ITEM_INDICES_FIELD_NUMBER: _ClassVar[int]
    SHARED_TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    parent: int
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    sampled_spans: _containers.RepeatedCompositeFieldContainer[TokenSpan]
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    policy_version: int
    temperature: float
    top_p: float
    finish_reason: str
    drift: Drift
    dropped_token_count: int
    item_indices: _containers.RepeatedScalarFieldContainer[int]
    shared_token_count: int
    sampling: _responses_pb2.SamplingParams
    def __init__(self, parent: _Optional[int] = ..., token_ids: _Optional[_Iterable[int]] = ..., sampled_spans: _Optional[_Iterable[_Union[TokenSpan, _Mapping]]] = ..., logprobs: _Optional[_Iterable[float]] = ..., policy_version: _Optional[int] = ..., temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., finish_reason: _Optional[str] = ..., drift: _Optional[_Union[Drift, str]] = ..., dropped_token_count: _Optional[int] = ..., item_indices: _Optional[_Iterable[int]] = ..., shared_token_count: _Optional[int] = ..., sampling: _Optional[_Union[_responses_pb2.SamplingParams, _Mapping]] = ...) -> None: ...

class Trajectory(_message.Message):
    __slots__ = ("segments",)
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    segments: _containers.RepeatedCompositeFieldContainer[TokenSegment]
    def __init__(self, segments: _Optional[_Iterable[_Union[TokenSegment, _Mapping]]] = ...) -> None: ...

class Timing(_message.Message):
    __slots__ = ("accept_time", "start_time", "end_time", "model_duration", "tool_duration", "seed_duration", "verify_duration", "release_duration")
    ACCEPT_TIME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    MODEL_DURATION_FIELD_NUMBER: _ClassVar[int]
    TOOL_DURATION_FIELD_NUMBER: _ClassVar[int]
    SEED_DURATION_FIELD_NUMBER: _ClassVar[int]
    VERIFY_DURATION_FIELD_NUMBER: _ClassVar[int]
    RELEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    accept_time: _timestamp_pb2.Timestamp
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    model_duration: _duration_pb2.Duration
    tool_duration: _duration_pb2.Duration
    seed_duration: _duration_pb2.Duration
    verify_duration: _duration_pb2.Duration
    release_duration: _duration_pb2.Duration
    def __init__(self, accept_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., model_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., tool_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., seed_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., verify_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., release_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class PolicySpan(_message.Message):
    __slots__ = ("start_version", "end_version", "stale")
    START_VERSION_FIELD_NUMBER: _ClassVar[int]
    END_VERSION_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    start_version: int
    end_version: int
    stale: bool
    def __init__(self, start_version: _Optional[int] = ..., end_version: _Optional[int] = ..., stale: bool = ...) -> None: ...

class Blob(_message.Message):
    __slots__ = ("name", "media_type", "segment", "data", "sha256")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    name: str
    media_type: str
    segment: int
    data: bytes
    sha256: str
    def __init__(self, name: _Optional[str] = ..., media_type: _Optional[str] = ..., segment: _Optional[int] = ..., data: _Optional[bytes] = ..., sha256: _Optional[str] = ...) -> None: ...

class Rollout(_message.Message):
    __slots__ = ("rollout_id", "task_id", "group_id", "index", "attempt", "agent", "outcome", "termination_reason", "failure", "response", "reward", "trajectory", "timing", "model_call_count", "tool_call_count", "tool_error_count", "policy", "blobs")
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    TERMINATION_REASON_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    TRAJECTORY_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    MODEL_CALL_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOOL_ERROR_COUNT_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    rollout_id: str
    task_id: str
    group_id: str
    index: int
    attempt: int
    agent: str
    outcome: Outcome
    termination_reason: str
    failure: Failure
    response: _responses_pb2.Response
    reward: Reward
    trajectory: Trajectory
    timing: Timing
    model_call_count: int
    tool_call_count: int
    tool_error_count: int
    policy: PolicySpan
    blobs: _containers.RepeatedCompositeFieldContainer[Blob]
    def __init__(self, rollout_id: _Optional[str] = ..., task_id: _Optional[str] = ..., group_id: _Optional[str] = ..., index: _Optional[int] = ..., attempt: _Optional[int] = ..., agent: _Optional[str] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., termination_reason: _Optional[str] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ..., response: _Optional[_Union[_responses_pb2.Response, _Mapping]] = ..., reward: _Optional[_Union[Reward, _Mapping]] = ..., trajectory: _Optional[_Union[Trajectory, _Mapping]] = ..., timing: _Optional[_Union[Timing, _Mapping]] = ..., model_call_count: _Optional[int] = ..., tool_call_count: _Optional[int] = ..., tool_error_count: _Optional[int] = ..., policy: _Optional[_Union[PolicySpan, _Mapping]] = ..., blobs: _Optional[_Iterable[_Union[Blob, _Mapping]]] = ...) -> None: ...
