from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ServerKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SERVER_KIND_UNSPECIFIED: _ClassVar[ServerKind]
    SERVER_KIND_MODEL: _ClassVar[ServerKind]
    SERVER_KIND_AGENT: _ClassVar[ServerKind]
    SERVER_KIND_RESOURCES: _ClassVar[ServerKind]

class Placement(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLACEMENT_UNSPECIFIED: _ClassVar[Placement]
    PLACEMENT_SHARED: _ClassVar[Placement]
    PLACEMENT_PROCESS: _ClassVar[Placement]
    PLACEMENT_VENV: _ClassVar[Placement]
    PLACEMENT_REMOTE: _ClassVar[Placement]

class ServerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SERVER_STATE_UNSPECIFIED: _ClassVar[ServerState]
    SERVER_STATE_STARTING: _ClassVar[ServerState]
    SERVER_STATE_READY: _ClassVar[ServerState]
    SERVER_STATE_UNHEALTHY: _ClassVar[ServerState]
    SERVER_STATE_DRAINING: _ClassVar[ServerState]
    SERVER_STATE_FAILED: _ClassVar[ServerState]
SERVER_KIND_UNSPECIFIED: ServerKind
SERVER_KIND_MODEL: ServerKind
SERVER_KIND_AGENT: ServerKind
SERVER_KIND_RESOURCES: ServerKind
PLACEMENT_UNSPECIFIED: Placement
PLACEMENT_SHARED: Placement
PLACEMENT_PROCESS: Placement
PLACEMENT_VENV: Placement
PLACEMENT_REMOTE: Placement
SERVER_STATE_UNSPECIFIED: ServerState
SERVER_STATE_STARTING: ServerState
SERVER_STATE_READY: ServerState
SERVER_STATE_UNHEALTHY: ServerState
SERVER_STATE_DRAINING: ServerState
SERVER_STATE_FAILED: ServerState

class ServerCapabilities(_message.Message):
    __slots__ = ("api_version", "link", "max_message_bytes", "max_concurrency", "implementation")
    API_VERSION_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    IMPLEMENTATION_FIELD_NUMBER: _ClassVar[int]
    api_version: str
    link: bool
    max_message_bytes: int
    max_concurrency: int
    implementation: str
    def __init__(self, api_version: _Optional[str] = ..., link: bool = ..., max_message_bytes: _Optional[int] = ..., max_concurrency: _Optional[int] = ..., implementation: _Optional[str] = ...) -> None: ...

class Server(_message.Message):
    __slots__ = ("server_id", "name", "kind", "address", "host_id", "placement", "state", "condition", "capabilities", "register_time", "lease_expire_time", "pid", "restart_count", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SERVER_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HOST_ID_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    REGISTER_TIME_FIELD_NUMBER: _ClassVar[int]
    LEASE_EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    RESTART_COUNT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    server_id: str
    name: str
    kind: ServerKind
    address: str
    host_id: str
    placement: Placement
    state: ServerState
    condition: str
    capabilities: ServerCapabilities
    register_time: _timestamp_pb2.Timestamp
    lease_expire_time: _timestamp_pb2.Timestamp
    pid: int
    restart_count: int
    labels: _containers.ScalarMap[str, str]
    def __init__(self, server_id: _Optional[str] = ..., name: _Optional[str] = ..., kind: _Optional[_Union[ServerKind, str]] = ..., address: _Optional[str] = ..., host_id: _Optional[str] = ..., placement: _Optional[_Union[Placement, str]] = ..., state: _Optional[_Union[ServerState, str]] = ..., condition: _Optional[str] = ..., capabilities: _Optional[_Union[ServerCapabilities, _Mapping]] = ..., register_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., lease_expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., pid: _Optional[int] = ..., restart_count: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class RegisterServerRequest(_message.Message):
    __slots__ = ("server_id", "name", "kind", "address", "host_id", "capabilities", "lease_ttl", "ready", "condition", "labels", "pid")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SERVER_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HOST_ID_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    LEASE_TTL_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    server_id: str
    name: str
    kind: ServerKind
    address: str
    host_id: str
    capabilities: ServerCapabilities
    lease_ttl: _duration_pb2.Duration
    ready: bool
    condition: str
    labels: _containers.ScalarMap[str, str]
    pid: int
    def __init__(self, server_id: _Optional[str] = ..., name: _Optional[str] = ..., kind: _Optional[_Union[ServerKind, str]] = ..., address: _Optional[str] = ..., host_id: _Optional[str] = ..., capabilities: _Optional[_Union[ServerCapabilities, _Mapping]] = ..., lease_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., ready: bool = ..., condition: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., pid: _Optional[int] = ...) -> None: ...

class RegisterServerResponse(_message.Message):
    __slots__ = ("server_id", "lease_ttl", "draining")
    SERVER_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_TTL_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    server_id: str
    lease_ttl: _duration_pb2.Duration
    draining: bool
    def __init__(self, server_id: _Optional[str] = ..., lease_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., draining: bool = ...) -> None: ...

class ListServersRequest(_message.Message):
    __slots__ = ("name", "kind")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: ServerKind
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[ServerKind, str]] = ...) -> None: ...

class ListServersResponse(_message.Message):
    __slots__ = ("servers", "revision", "daemon")
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    DAEMON_FIELD_NUMBER: _ClassVar[int]
    servers: _containers.RepeatedCompositeFieldContainer[Server]
    revision: int
    daemon: DaemonInfo
    def __init__(self, servers: _Optional[_Iterable[_Union[Server, _Mapping]]] = ..., revision: _Optional[int] = ..., daemon: _Optional[_Union[DaemonInfo, _Mapping]] = ...) -> None: ...

class DaemonInfo(_message.Message):
    __slots__ = ("version", "address", "pid", "start_time", "draining", "default_agent", "condition")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_AGENT_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    version: str
    address: str
    pid: int
    start_time: _timestamp_pb2.Timestamp
    draining: bool
    default_agent: str
    condition: str
    def __init__(self, version: _Optional[str] = ..., address: _Optional[str] = ..., pid: _Optional[int] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., draining: bool = ..., default_agent: _Optional[str] = ..., condition: _Optional[str] = ...) -> None: ...

class WatchServersRequest(_message.Message):
    __slots__ = ("kind",)
    KIND_FIELD_NUMBER: _ClassVar[int]
    kind: ServerKind
    def __init__(self, kind: _Optional[_Union[ServerKind, str]] = ...) -> None: ...

class WatchServersResponse(_message.Message):
    __slots__ = ("revision", "snapshot", "servers", "removed_server_ids")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_SERVER_IDS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    snapshot: bool
    servers: _containers.RepeatedCompositeFieldContainer[Server]
    removed_server_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, revision: _Optional[int] = ..., snapshot: bool = ..., servers: _Optional[_Iterable[_Union[Server, _Mapping]]] = ..., removed_server_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class DrainServerRequest(_message.Message):
    __slots__ = ("server_id", "name")
    SERVER_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    server_id: str
    name: str
    def __init__(self, server_id: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class DrainServerResponse(_message.Message):
    __slots__ = ("servers",)
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    servers: _containers.RepeatedCompositeFieldContainer[Server]
    def __init__(self, servers: _Optional[_Iterable[_Union[Server, _Mapping]]] = ...) -> None: ...

class DeregisterServerRequest(_message.Message):
    __slots__ = ("server_id",)
    SERVER_ID_FIELD_NUMBER: _ClassVar[int]
    server_id: str
    def __init__(self, server_id: _Optional[str] = ...) -> None: ...

class DeregisterServerResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RestartServerRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RestartServerResponse(_message.Message):
    __slots__ = ("restarted_names",)
    RESTARTED_NAMES_FIELD_NUMBER: _ClassVar[int]
    restarted_names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, restarted_names: _Optional[_Iterable[str]] = ...) -> None: ...

class GetServerLogsRequest(_message.Message):
    __slots__ = ("name", "line_count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LINE_COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    line_count: int
    def __init__(self, name: _Optional[str] = ..., line_count: _Optional[int] = ...) -> None: ...

class GetServerLogsResponse(_message.Message):
    __slots__ = ("logs",)
    LOGS_FIELD_NUMBER: _ClassVar[int]
    logs: _containers.RepeatedCompositeFieldContainer[ServerLog]
    def __init__(self, logs: _Optional[_Iterable[_Union[ServerLog, _Mapping]]] = ...) -> None: ...

class ServerLog(_message.Message):
    __slots__ = ("host_id", "pid", "lines")
    HOST_ID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    host_id: str
    pid: int
    lines: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, host_id: _Optional[str] = ..., pid: _Optional[int] = ..., lines: _Optional[_Iterable[str]] = ...) -> None: ...
