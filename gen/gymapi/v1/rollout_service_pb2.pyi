from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from gymapi.v1 import agent_service_pb2 as _agent_service_pb2
from gymapi.v1 import errors_pb2 as _errors_pb2
from gymapi.v1 import responses_pb2 as _responses_pb2
from gymapi.v1 import rollout_pb2 as _rollout_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaskPurpose(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_PURPOSE_UNSPECIFIED: _ClassVar[TaskPurpose]
    TASK_PURPOSE_TRAIN: _ClassVar[TaskPurpose]
    TASK_PURPOSE_EVAL: _ClassVar[TaskPurpose]

class CancelMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CANCEL_MODE_UNSPECIFIED: _ClassVar[CancelMode]
    CANCEL_MODE_ABORT: _ClassVar[CancelMode]
    CANCEL_MODE_PARTIAL: _ClassVar[CancelMode]
    CANCEL_MODE_FINISH_TURN: _ClassVar[CancelMode]

class GroupCancelReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GROUP_CANCEL_REASON_UNSPECIFIED: _ClassVar[GroupCancelReason]
    GROUP_CANCEL_REASON_CLIENT: _ClassVar[GroupCancelReason]
    GROUP_CANCEL_REASON_STALE: _ClassVar[GroupCancelReason]
    GROUP_CANCEL_REASON_SHUTDOWN: _ClassVar[GroupCancelReason]

class StalenessMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STALENESS_MODE_UNSPECIFIED: _ClassVar[StalenessMode]
    STALENESS_MODE_PACE: _ClassVar[StalenessMode]
    STALENESS_MODE_DROP: _ClassVar[StalenessMode]
    STALENESS_MODE_WITHHOLD: _ClassVar[StalenessMode]
    STALENESS_MODE_MASK: _ClassVar[StalenessMode]

class PolicyPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    POLICY_PHASE_UNSPECIFIED: _ClassVar[PolicyPhase]
    POLICY_PHASE_PENDING: _ClassVar[PolicyPhase]
    POLICY_PHASE_PAUSED: _ClassVar[PolicyPhase]
    POLICY_PHASE_LIVE: _ClassVar[PolicyPhase]

class InflightMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INFLIGHT_MODE_UNSPECIFIED: _ClassVar[InflightMode]
    INFLIGHT_MODE_CONTINUE: _ClassVar[InflightMode]
    INFLIGHT_MODE_HOLD: _ClassVar[InflightMode]
    INFLIGHT_MODE_ABORT_RESUME: _ClassVar[InflightMode]
    INFLIGHT_MODE_DRAIN: _ClassVar[InflightMode]
TASK_PURPOSE_UNSPECIFIED: TaskPurpose
TASK_PURPOSE_TRAIN: TaskPurpose
TASK_PURPOSE_EVAL: TaskPurpose
CANCEL_MODE_UNSPECIFIED: CancelMode
CANCEL_MODE_ABORT: CancelMode
CANCEL_MODE_PARTIAL: CancelMode
CANCEL_MODE_FINISH_TURN: CancelMode
GROUP_CANCEL_REASON_UNSPECIFIED: GroupCancelReason
GROUP_CANCEL_REASON_CLIENT: GroupCancelReason
GROUP_CANCEL_REASON_STALE: GroupCancelReason
GROUP_CANCEL_REASON_SHUTDOWN: GroupCancelReason
STALENESS_MODE_UNSPECIFIED: StalenessMode
STALENESS_MODE_PACE: StalenessMode
STALENESS_MODE_DROP: StalenessMode
STALENESS_MODE_WITHHOLD: StalenessMode
STALENESS_MODE_MASK: StalenessMode
POLICY_PHASE_UNSPECIFIED: PolicyPhase
POLICY_PHASE_PENDING: PolicyPhase
POLICY_PHASE_PAUSED: PolicyPhase
POLICY_PHASE_LIVE: PolicyPhase
INFLIGHT_MODE_UNSPECIFIED: InflightMode
INFLIGHT_MODE_CONTINUE: InflightMode
INFLIGHT_MODE_HOLD: InflightMode
INFLIGHT_MODE_ABORT_RESUME: InflightMode
INFLIGHT_MODE_DRAIN: InflightMode

class StreamRolloutsRequest(_message.Message):
    __slots__ = ("open", "submit", "grant", "ack", "cancel", "policy_update", "end", "generate_results")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    POLICY_UPDATE_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    GENERATE_RESULTS_FIELD_NUMBER: _ClassVar[int]
    open: OpenSession
    submit: SubmitTasks
    grant: GrantCredits
    ack: AckResults
    cancel: CancelWork
    policy_update: PolicyUpdate
    end: EndSession
    generate_results: GenerateResults
    def __init__(self, open: _Optional[_Union[OpenSession, _Mapping]] = ..., submit: _Optional[_Union[SubmitTasks, _Mapping]] = ..., grant: _Optional[_Union[GrantCredits, _Mapping]] = ..., ack: _Optional[_Union[AckResults, _Mapping]] = ..., cancel: _Optional[_Union[CancelWork, _Mapping]] = ..., policy_update: _Optional[_Union[PolicyUpdate, _Mapping]] = ..., end: _Optional[_Union[EndSession, _Mapping]] = ..., generate_results: _Optional[_Union[GenerateResults, _Mapping]] = ...) -> None: ...

class StreamRolloutsResponse(_message.Message):
    __slots__ = ("opened", "admissions", "results", "progress", "cancelled", "group_completed", "draining", "summary", "policy_update_ack", "result_chunk", "group_cancelled", "generate_requests")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    ADMISSIONS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    GROUP_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    POLICY_UPDATE_ACK_FIELD_NUMBER: _ClassVar[int]
    RESULT_CHUNK_FIELD_NUMBER: _ClassVar[int]
    GROUP_CANCELLED_FIELD_NUMBER: _ClassVar[int]
    GENERATE_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    opened: SessionOpened
    admissions: TaskAdmissions
    results: RolloutResults
    progress: Progress
    cancelled: WorkCancelled
    group_completed: GroupCompleted
    draining: Draining
    summary: SessionSummary
    policy_update_ack: PolicyUpdateAck
    result_chunk: ResultChunk
    group_cancelled: GroupCancelled
    generate_requests: GenerateRequests
    def __init__(self, opened: _Optional[_Union[SessionOpened, _Mapping]] = ..., admissions: _Optional[_Union[TaskAdmissions, _Mapping]] = ..., results: _Optional[_Union[RolloutResults, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., cancelled: _Optional[_Union[WorkCancelled, _Mapping]] = ..., group_completed: _Optional[_Union[GroupCompleted, _Mapping]] = ..., draining: _Optional[_Union[Draining, _Mapping]] = ..., summary: _Optional[_Union[SessionSummary, _Mapping]] = ..., policy_update_ack: _Optional[_Union[PolicyUpdateAck, _Mapping]] = ..., result_chunk: _Optional[_Union[ResultChunk, _Mapping]] = ..., group_cancelled: _Optional[_Union[GroupCancelled, _Mapping]] = ..., generate_requests: _Optional[_Union[GenerateRequests, _Mapping]] = ...) -> None: ...

class OpenSession(_message.Message):
    __slots__ = ("client_name", "run_id", "session_id", "last_sequence", "granted_rollouts", "default_agent", "deadlines", "infra_retry_limit", "return_tokens", "progress_interval", "max_message_bytes", "resume_window", "data_retry_limit", "agent_shares", "granted_groups", "granted_bytes", "policy_version", "accepts_chunks", "serves_policy")
    class AgentSharesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: AgentShare
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[AgentShare, _Mapping]] = ...) -> None: ...
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    GRANTED_ROLLOUTS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_AGENT_FIELD_NUMBER: _ClassVar[int]
    DEADLINES_FIELD_NUMBER: _ClassVar[int]
    INFRA_RETRY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    RETURN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    RESUME_WINDOW_FIELD_NUMBER: _ClassVar[int]
    DATA_RETRY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    AGENT_SHARES_FIELD_NUMBER: _ClassVar[int]
    GRANTED_GROUPS_FIELD_NUMBER: _ClassVar[int]
    GRANTED_BYTES_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    ACCEPTS_CHUNKS_FIELD_NUMBER: _ClassVar[int]
    SERVES_POLICY_FIELD_NUMBER: _ClassVar[int]
    client_name: str
    run_id: str
    session_id: str
    last_sequence: int
    granted_rollouts: int
    default_agent: str
    deadlines: _agent_service_pb2.Deadlines
    infra_retry_limit: int
    return_tokens: bool
    progress_interval: _duration_pb2.Duration
    max_message_bytes: int
    resume_window: _duration_pb2.Duration
    data_retry_limit: int
    agent_shares: _containers.MessageMap[str, AgentShare]
    granted_groups: int
    granted_bytes: int
    policy_version: int
    accepts_chunks: bool
    serves_policy: bool
    def __init__(self, client_name: _Optional[str] = ..., run_id: _Optional[str] = ..., session_id: _Optional[str] = ..., last_sequence: _Optional[int] = ..., granted_rollouts: _Optional[int] = ..., default_agent: _Optional[str] = ..., deadlines: _Optional[_Union[_agent_service_pb2.Deadlines, _Mapping]] = ..., infra_retry_limit: _Optional[int] = ..., return_tokens: bool = ..., progress_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_message_bytes: _Optional[int] = ..., resume_window: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., data_retry_limit: _Optional[int] = ..., agent_shares: _Optional[_Mapping[str, AgentShare]] = ..., granted_groups: _Optional[int] = ..., granted_bytes: _Optional[int] = ..., policy_version: _Optional[int] = ..., accepts_chunks: bool = ..., serves_policy: bool = ...) -> None: ...

class AgentShare(_message.Message):
    __slots__ = ("weight", "min_share")
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    MIN_SHARE_FIELD_NUMBER: _ClassVar[int]
    weight: float
    min_share: float
    def __init__(self, weight: _Optional[float] = ..., min_share: _Optional[float] = ...) -> None: ...

class SessionOpened(_message.Message):
    __slots__ = ("session_id", "resumed", "progress_interval", "max_running_rollouts", "max_message_bytes", "features", "daemon_version", "resume_window", "durable", "granted_rollouts", "used_rollouts", "last_sequence", "task_ids", "granted_groups", "used_groups", "granted_bytes", "sent_bytes", "policy_version", "policy_paused", "last_cancel_number")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNNING_ROLLOUTS_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    DAEMON_VERSION_FIELD_NUMBER: _ClassVar[int]
    RESUME_WINDOW_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    GRANTED_ROLLOUTS_FIELD_NUMBER: _ClassVar[int]
    USED_ROLLOUTS_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    GRANTED_GROUPS_FIELD_NUMBER: _ClassVar[int]
    USED_GROUPS_FIELD_NUMBER: _ClassVar[int]
    GRANTED_BYTES_FIELD_NUMBER: _ClassVar[int]
    SENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    POLICY_PAUSED_FIELD_NUMBER: _ClassVar[int]
    LAST_CANCEL_NUMBER_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    resumed: bool
    progress_interval: _duration_pb2.Duration
    max_running_rollouts: int
    max_message_bytes: int
    features: _containers.RepeatedScalarFieldContainer[str]
    daemon_version: str
    resume_window: _duration_pb2.Duration
    durable: bool
    granted_rollouts: int
    used_rollouts: int
    last_sequence: int
    task_ids: _containers.RepeatedScalarFieldContainer[str]
    granted_groups: int
    used_groups: int
    granted_bytes: int
    sent_bytes: int
    policy_version: int
    policy_paused: bool
    last_cancel_number: int
    def __init__(self, session_id: _Optional[str] = ..., resumed: bool = ..., progress_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_running_rollouts: _Optional[int] = ..., max_message_bytes: _Optional[int] = ..., features: _Optional[_Iterable[str]] = ..., daemon_version: _Optional[str] = ..., resume_window: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., durable: bool = ..., granted_rollouts: _Optional[int] = ..., used_rollouts: _Optional[int] = ..., last_sequence: _Optional[int] = ..., task_ids: _Optional[_Iterable[str]] = ..., granted_groups: _Optional[int] = ..., used_groups: _Optional[int] = ..., granted_bytes: _Optional[int] = ..., sent_bytes: _Optional[int] = ..., policy_version: _Optional[int] = ..., policy_paused: bool = ..., last_cancel_number: _Optional[int] = ...) -> None: ...

class SubmitTasks(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[TaskSubmission]
    def __init__(self, tasks: _Optional[_Iterable[_Union[TaskSubmission, _Mapping]]] = ...) -> None: ...

class TaskSubmission(_message.Message):
    __slots__ = ("task_id", "group_id", "task", "rollout_count", "first_index", "deadlines", "policy_constraint", "wanted_count", "purpose")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    DEADLINES_FIELD_NUMBER: _ClassVar[int]
    POLICY_CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    WANTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    group_id: str
    task: _rollout_pb2.Task
    rollout_count: int
    first_index: int
    deadlines: _agent_service_pb2.Deadlines
    policy_constraint: PolicyConstraint
    wanted_count: int
    purpose: TaskPurpose
    def __init__(self, task_id: _Optional[str] = ..., group_id: _Optional[str] = ..., task: _Optional[_Union[_rollout_pb2.Task, _Mapping]] = ..., rollout_count: _Optional[int] = ..., first_index: _Optional[int] = ..., deadlines: _Optional[_Union[_agent_service_pb2.Deadlines, _Mapping]] = ..., policy_constraint: _Optional[_Union[PolicyConstraint, _Mapping]] = ..., wanted_count: _Optional[int] = ..., purpose: _Optional[_Union[TaskPurpose, str]] = ...) -> None: ...

class GrantCredits(_message.Message):
    __slots__ = ("granted_rollouts", "granted_groups", "granted_bytes")
    GRANTED_ROLLOUTS_FIELD_NUMBER: _ClassVar[int]
    GRANTED_GROUPS_FIELD_NUMBER: _ClassVar[int]
    GRANTED_BYTES_FIELD_NUMBER: _ClassVar[int]
    granted_rollouts: int
    granted_groups: int
    granted_bytes: int
    def __init__(self, granted_rollouts: _Optional[int] = ..., granted_groups: _Optional[int] = ..., granted_bytes: _Optional[int] = ...) -> None: ...

class AckResults(_message.Message):
    __slots__ = ("through_sequence", "rejected_sequences")
    THROUGH_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REJECTED_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    through_sequence: int
    rejected_sequences: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, through_sequence: _Optional[int] = ..., rejected_sequences: _Optional[_Iterable[int]] = ...) -> None: ...

class EndSession(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CancelWork(_message.Message):
    __slots__ = ("task_id", "group_id", "agent", "all", "older_than_version", "rollout_id", "environment", "mode", "reason", "number")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    OLDER_THAN_VERSION_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    group_id: str
    agent: str
    all: bool
    older_than_version: int
    rollout_id: str
    environment: str
    mode: CancelMode
    reason: str
    number: int
    def __init__(self, task_id: _Optional[str] = ..., group_id: _Optional[str] = ..., agent: _Optional[str] = ..., all: bool = ..., older_than_version: _Optional[int] = ..., rollout_id: _Optional[str] = ..., environment: _Optional[str] = ..., mode: _Optional[_Union[CancelMode, str]] = ..., reason: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class TaskAdmissions(_message.Message):
    __slots__ = ("admissions",)
    ADMISSIONS_FIELD_NUMBER: _ClassVar[int]
    admissions: _containers.RepeatedCompositeFieldContainer[TaskAdmission]
    def __init__(self, admissions: _Optional[_Iterable[_Union[TaskAdmission, _Mapping]]] = ...) -> None: ...

class TaskAdmission(_message.Message):
    __slots__ = ("task_id", "rejection", "known")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    REJECTION_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    rejection: _errors_pb2.ErrorStatus
    known: bool
    def __init__(self, task_id: _Optional[str] = ..., rejection: _Optional[_Union[_errors_pb2.ErrorStatus, _Mapping]] = ..., known: bool = ...) -> None: ...

class RolloutResults(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[RolloutResult]
    def __init__(self, results: _Optional[_Iterable[_Union[RolloutResult, _Mapping]]] = ...) -> None: ...

class RolloutResult(_message.Message):
    __slots__ = ("sequence", "rollout")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    rollout: _rollout_pb2.Rollout
    def __init__(self, sequence: _Optional[int] = ..., rollout: _Optional[_Union[_rollout_pb2.Rollout, _Mapping]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("last_sequence", "queued_count", "running_count", "done_count", "acked_sequence", "waiting_result_bytes", "condition")
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    QUEUED_COUNT_FIELD_NUMBER: _ClassVar[int]
    RUNNING_COUNT_FIELD_NUMBER: _ClassVar[int]
    DONE_COUNT_FIELD_NUMBER: _ClassVar[int]
    ACKED_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WAITING_RESULT_BYTES_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    last_sequence: int
    queued_count: int
    running_count: int
    done_count: int
    acked_sequence: int
    waiting_result_bytes: int
    condition: str
    def __init__(self, last_sequence: _Optional[int] = ..., queued_count: _Optional[int] = ..., running_count: _Optional[int] = ..., done_count: _Optional[int] = ..., acked_sequence: _Optional[int] = ..., waiting_result_bytes: _Optional[int] = ..., condition: _Optional[str] = ...) -> None: ...

class WorkCancelled(_message.Message):
    __slots__ = ("cancelled_count", "request", "error", "known")
    CANCELLED_COUNT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    cancelled_count: int
    request: CancelWork
    error: _errors_pb2.ErrorStatus
    known: bool
    def __init__(self, cancelled_count: _Optional[int] = ..., request: _Optional[_Union[CancelWork, _Mapping]] = ..., error: _Optional[_Union[_errors_pb2.ErrorStatus, _Mapping]] = ..., known: bool = ...) -> None: ...

class GroupCompleted(_message.Message):
    __slots__ = ("group_id", "outcome_counts", "mean_reward")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_COUNTS_FIELD_NUMBER: _ClassVar[int]
    MEAN_REWARD_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    outcome_counts: _containers.RepeatedCompositeFieldContainer[OutcomeCount]
    mean_reward: float
    def __init__(self, group_id: _Optional[str] = ..., outcome_counts: _Optional[_Iterable[_Union[OutcomeCount, _Mapping]]] = ..., mean_reward: _Optional[float] = ...) -> None: ...

class GroupCancelled(_message.Message):
    __slots__ = ("group_id", "reason", "stopped_count", "outcome_counts")
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STOPPED_COUNT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_COUNTS_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    reason: GroupCancelReason
    stopped_count: int
    outcome_counts: _containers.RepeatedCompositeFieldContainer[OutcomeCount]
    def __init__(self, group_id: _Optional[str] = ..., reason: _Optional[_Union[GroupCancelReason, str]] = ..., stopped_count: _Optional[int] = ..., outcome_counts: _Optional[_Iterable[_Union[OutcomeCount, _Mapping]]] = ...) -> None: ...

class OutcomeCount(_message.Message):
    __slots__ = ("outcome", "count")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    outcome: _rollout_pb2.Outcome
    count: int
    def __init__(self, outcome: _Optional[_Union[_rollout_pb2.Outcome, str]] = ..., count: _Optional[int] = ...) -> None: ...

class Draining(_message.Message):
    __slots__ = ("time_left", "reason")
    TIME_LEFT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    time_left: _duration_pb2.Duration
    reason: str
    def __init__(self, time_left: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class SessionSummary(_message.Message):
    __slots__ = ("accepted_task_count", "rejected_task_count", "result_count", "outcome_counts", "retried_count")
    ACCEPTED_TASK_COUNT_FIELD_NUMBER: _ClassVar[int]
    REJECTED_TASK_COUNT_FIELD_NUMBER: _ClassVar[int]
    RESULT_COUNT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_COUNTS_FIELD_NUMBER: _ClassVar[int]
    RETRIED_COUNT_FIELD_NUMBER: _ClassVar[int]
    accepted_task_count: int
    rejected_task_count: int
    result_count: int
    outcome_counts: _containers.RepeatedCompositeFieldContainer[OutcomeCount]
    retried_count: int
    def __init__(self, accepted_task_count: _Optional[int] = ..., rejected_task_count: _Optional[int] = ..., result_count: _Optional[int] = ..., outcome_counts: _Optional[_Iterable[_Union[OutcomeCount, _Mapping]]] = ..., retried_count: _Optional[int] = ...) -> None: ...

class PolicyConstraint(_message.Message):
    __slots__ = ("min_version", "max_version_lag", "mode")
    MIN_VERSION_FIELD_NUMBER: _ClassVar[int]
    MAX_VERSION_LAG_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    min_version: int
    max_version_lag: int
    mode: StalenessMode
    def __init__(self, min_version: _Optional[int] = ..., max_version_lag: _Optional[int] = ..., mode: _Optional[_Union[StalenessMode, str]] = ...) -> None: ...

class PolicyUpdate(_message.Message):
    __slots__ = ("version", "phase", "inflight")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    INFLIGHT_FIELD_NUMBER: _ClassVar[int]
    version: int
    phase: PolicyPhase
    inflight: InflightMode
    def __init__(self, version: _Optional[int] = ..., phase: _Optional[_Union[PolicyPhase, str]] = ..., inflight: _Optional[_Union[InflightMode, str]] = ...) -> None: ...

class PolicyUpdateAck(_message.Message):
    __slots__ = ("version", "phase", "older_running_count", "running_count")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    OLDER_RUNNING_COUNT_FIELD_NUMBER: _ClassVar[int]
    RUNNING_COUNT_FIELD_NUMBER: _ClassVar[int]
    version: int
    phase: PolicyPhase
    older_running_count: int
    running_count: int
    def __init__(self, version: _Optional[int] = ..., phase: _Optional[_Union[PolicyPhase, str]] = ..., older_running_count: _Optional[int] = ..., running_count: _Optional[int] = ...) -> None: ...

class GenerateRequests(_message.Message):
    __slots__ = ("requests", "cancelled_call_ids")
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_CALL_IDS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[GenerateRequest]
    cancelled_call_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, requests: _Optional[_Iterable[_Union[GenerateRequest, _Mapping]]] = ..., cancelled_call_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class GenerateRequest(_message.Message):
    __slots__ = ("call_id", "rollout_id", "params", "prompt_token_ids", "deadline", "min_version", "return_tokens", "server", "time_left")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    MIN_VERSION_FIELD_NUMBER: _ClassVar[int]
    RETURN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    TIME_LEFT_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    rollout_id: str
    params: _responses_pb2.ResponseCreateParams
    prompt_token_ids: _containers.RepeatedScalarFieldContainer[int]
    deadline: _timestamp_pb2.Timestamp
    min_version: int
    return_tokens: bool
    server: str
    time_left: _duration_pb2.Duration
    def __init__(self, call_id: _Optional[str] = ..., rollout_id: _Optional[str] = ..., params: _Optional[_Union[_responses_pb2.ResponseCreateParams, _Mapping]] = ..., prompt_token_ids: _Optional[_Iterable[int]] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., min_version: _Optional[int] = ..., return_tokens: bool = ..., server: _Optional[str] = ..., time_left: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class GenerateResults(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[GenerateResult]
    def __init__(self, results: _Optional[_Iterable[_Union[GenerateResult, _Mapping]]] = ...) -> None: ...

class GenerateResult(_message.Message):
    __slots__ = ("call_id", "response", "token_trace", "policy_version", "error")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_TRACE_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    response: _responses_pb2.Response
    token_trace: _responses_pb2.TokenTrace
    policy_version: int
    error: _errors_pb2.ErrorStatus
    def __init__(self, call_id: _Optional[str] = ..., response: _Optional[_Union[_responses_pb2.Response, _Mapping]] = ..., token_trace: _Optional[_Union[_responses_pb2.TokenTrace, _Mapping]] = ..., policy_version: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.ErrorStatus, _Mapping]] = ...) -> None: ...

class ResultChunk(_message.Message):
    __slots__ = ("sequence", "offset_bytes", "data", "last", "sha256")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_BYTES_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    offset_bytes: int
    data: bytes
    last: bool
    sha256: str
    def __init__(self, sequence: _Optional[int] = ..., offset_bytes: _Optional[int] = ..., data: _Optional[bytes] = ..., last: bool = ..., sha256: _Optional[str] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("sessions",)
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[SessionInfo]
    def __init__(self, sessions: _Optional[_Iterable[_Union[SessionInfo, _Mapping]]] = ...) -> None: ...

class SessionInfo(_message.Message):
    __slots__ = ("session_id", "client_name", "open_time", "progress", "granted_rollouts")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    OPEN_TIME_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    GRANTED_ROLLOUTS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    client_name: str
    open_time: _timestamp_pb2.Timestamp
    progress: Progress
    granted_rollouts: int
    def __init__(self, session_id: _Optional[str] = ..., client_name: _Optional[str] = ..., open_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., granted_rollouts: _Optional[int] = ...) -> None: ...

class GetMetricsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetMetricsResponse(_message.Message):
    __slots__ = ("metrics",)
    METRICS_FIELD_NUMBER: _ClassVar[int]
    metrics: _containers.RepeatedCompositeFieldContainer[Metric]
    def __init__(self, metrics: _Optional[_Iterable[_Union[Metric, _Mapping]]] = ...) -> None: ...

class Metric(_message.Message):
    __slots__ = ("name", "labels", "value", "help")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    HELP_FIELD_NUMBER: _ClassVar[int]
    name: str
    labels: _containers.ScalarMap[str, str]
    value: float
    help: str
    def __init__(self, name: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., value: _Optional[float] = ..., help: _Optional[str] = ...) -> None: ...
