from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_REASON_UNSPECIFIED: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_REQUEST: _ClassVar[ErrorReason]
    ERROR_REASON_PROTOCOL_VIOLATION: _ClassVar[ErrorReason]
    ERROR_REASON_UPSTREAM_REJECTED: _ClassVar[ErrorReason]
    ERROR_REASON_SERVER_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_SESSION_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_TOOL_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_UPSTREAM_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_NAME_TAKEN: _ClassVar[ErrorReason]
    ERROR_REASON_SERVER_NOT_READY: _ClassVar[ErrorReason]
    ERROR_REASON_UPSTREAM_AUTH: _ClassVar[ErrorReason]
    ERROR_REASON_CREDIT_EXCEEDED: _ClassVar[ErrorReason]
    ERROR_REASON_MESSAGE_TOO_LARGE: _ClassVar[ErrorReason]
    ERROR_REASON_UPSTREAM_RATE_LIMITED: _ClassVar[ErrorReason]
    ERROR_REASON_LIMIT_REACHED: _ClassVar[ErrorReason]
    ERROR_REASON_DRAINING: _ClassVar[ErrorReason]
    ERROR_REASON_PEER_UNREACHABLE: _ClassVar[ErrorReason]
    ERROR_REASON_UPSTREAM_UNAVAILABLE: _ClassVar[ErrorReason]
    ERROR_REASON_SESSION_LOST: _ClassVar[ErrorReason]
    ERROR_REASON_RESUME_POINT_GONE: _ClassVar[ErrorReason]
    ERROR_REASON_DEADLINE_EXCEEDED: _ClassVar[ErrorReason]
    ERROR_REASON_CANCELLED: _ClassVar[ErrorReason]
    ERROR_REASON_NOT_IMPLEMENTED: _ClassVar[ErrorReason]
    ERROR_REASON_SERVER_CODE_FAILED: _ClassVar[ErrorReason]
    ERROR_REASON_UPSTREAM_MALFORMED: _ClassVar[ErrorReason]
    ERROR_REASON_INTERNAL: _ClassVar[ErrorReason]
    ERROR_REASON_STORAGE_FULL: _ClassVar[ErrorReason]
    ERROR_REASON_JUDGE_FAILED: _ClassVar[ErrorReason]
ERROR_REASON_UNSPECIFIED: ErrorReason
ERROR_REASON_INVALID_REQUEST: ErrorReason
ERROR_REASON_PROTOCOL_VIOLATION: ErrorReason
ERROR_REASON_UPSTREAM_REJECTED: ErrorReason
ERROR_REASON_SERVER_NOT_FOUND: ErrorReason
ERROR_REASON_SESSION_NOT_FOUND: ErrorReason
ERROR_REASON_TOOL_NOT_FOUND: ErrorReason
ERROR_REASON_UPSTREAM_NOT_FOUND: ErrorReason
ERROR_REASON_NAME_TAKEN: ErrorReason
ERROR_REASON_SERVER_NOT_READY: ErrorReason
ERROR_REASON_UPSTREAM_AUTH: ErrorReason
ERROR_REASON_CREDIT_EXCEEDED: ErrorReason
ERROR_REASON_MESSAGE_TOO_LARGE: ErrorReason
ERROR_REASON_UPSTREAM_RATE_LIMITED: ErrorReason
ERROR_REASON_LIMIT_REACHED: ErrorReason
ERROR_REASON_DRAINING: ErrorReason
ERROR_REASON_PEER_UNREACHABLE: ErrorReason
ERROR_REASON_UPSTREAM_UNAVAILABLE: ErrorReason
ERROR_REASON_SESSION_LOST: ErrorReason
ERROR_REASON_RESUME_POINT_GONE: ErrorReason
ERROR_REASON_DEADLINE_EXCEEDED: ErrorReason
ERROR_REASON_CANCELLED: ErrorReason
ERROR_REASON_NOT_IMPLEMENTED: ErrorReason
ERROR_REASON_SERVER_CODE_FAILED: ErrorReason
ERROR_REASON_UPSTREAM_MALFORMED: ErrorReason
ERROR_REASON_INTERNAL: ErrorReason
ERROR_REASON_STORAGE_FULL: ErrorReason
ERROR_REASON_JUDGE_FAILED: ErrorReason

class ErrorStatus(_message.Message):
    __slots__ = ("code", "reason", "message", "metadata", "retry_delay")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    RETRY_DELAY_FIELD_NUMBER: _ClassVar[int]
    code: int
    reason: ErrorReason
    message: str
    metadata: _containers.ScalarMap[str, str]
    retry_delay: _duration_pb2.Duration
    def __init__(self, code: _Optional[int] = ..., reason: _Optional[_Union[ErrorReason, str]] = ..., message: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., retry_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...
