from gymapi.v1 import errors_pb2 as _errors_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ConnectRequest(_message.Message):
    __slots__ = ("frames",)
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedCompositeFieldContainer[LinkFrame]
    def __init__(self, frames: _Optional[_Iterable[_Union[LinkFrame, _Mapping]]] = ...) -> None: ...

class ConnectResponse(_message.Message):
    __slots__ = ("frames",)
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedCompositeFieldContainer[LinkFrame]
    def __init__(self, frames: _Optional[_Iterable[_Union[LinkFrame, _Mapping]]] = ...) -> None: ...

class LinkFrame(_message.Message):
    __slots__ = ("call_id", "call", "message", "error", "end", "cancel", "chunk", "hello", "drain")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    call_id: int
    call: LinkCall
    message: LinkMessage
    error: _errors_pb2.ErrorStatus
    end: LinkEnd
    cancel: LinkCancel
    chunk: LinkChunk
    hello: LinkHello
    drain: LinkDrain
    def __init__(self, call_id: _Optional[int] = ..., call: _Optional[_Union[LinkCall, _Mapping]] = ..., message: _Optional[_Union[LinkMessage, _Mapping]] = ..., error: _Optional[_Union[_errors_pb2.ErrorStatus, _Mapping]] = ..., end: _Optional[_Union[LinkEnd, _Mapping]] = ..., cancel: _Optional[_Union[LinkCancel, _Mapping]] = ..., chunk: _Optional[_Union[LinkChunk, _Mapping]] = ..., hello: _Optional[_Union[LinkHello, _Mapping]] = ..., drain: _Optional[_Union[LinkDrain, _Mapping]] = ...) -> None: ...

class LinkCall(_message.Message):
    __slots__ = ("method", "server", "body", "timeout_millis", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    METHOD_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MILLIS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    method: str
    server: str
    body: bytes
    timeout_millis: int
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, method: _Optional[str] = ..., server: _Optional[str] = ..., body: _Optional[bytes] = ..., timeout_millis: _Optional[int] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class LinkMessage(_message.Message):
    __slots__ = ("body", "last")
    BODY_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    body: bytes
    last: bool
    def __init__(self, body: _Optional[bytes] = ..., last: bool = ...) -> None: ...

class LinkEnd(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LinkCancel(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LinkChunk(_message.Message):
    __slots__ = ("data", "reply")
    DATA_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    reply: bool
    def __init__(self, data: _Optional[bytes] = ..., reply: bool = ...) -> None: ...

class LinkHello(_message.Message):
    __slots__ = ("api_version", "host_id")
    API_VERSION_FIELD_NUMBER: _ClassVar[int]
    HOST_ID_FIELD_NUMBER: _ClassVar[int]
    api_version: str
    host_id: str
    def __init__(self, api_version: _Optional[str] = ..., host_id: _Optional[str] = ...) -> None: ...

class LinkDrain(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
