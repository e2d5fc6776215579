"""The one table between exceptions and statuses.

    GymdError
    ├── InvalidRequest      INVALID_ARGUMENT     the request is wrong; sending it again gives the same
    ├── NotFound            NOT_FOUND            no such server, session, tool or model
    ├── AlreadyExists       ALREADY_EXISTS       the name is taken
    ├── NotReady            FAILED_PRECONDITION  registered, but not able to work yet
    ├── PermissionDenied    PERMISSION_DENIED    the endpoint refused the credentials
    ├── LimitReached        RESOURCE_EXHAUSTED   a credit, size, rate or capacity limit
    ├── Unavailable         UNAVAILABLE          draining, unreachable, upstream 5xx: later may help
    ├── Aborted             ABORTED              the session is lost
    ├── OutOfRange          OUT_OF_RANGE         the resume point is gone
    ├── DeadlineExceeded    DEADLINE_EXCEEDED    too late
    ├── Cancelled           CANCELLED            the caller gave up
    ├── Unimplemented       UNIMPLEMENTED        not built
    └── Internal            INTERNAL             a bug, or code of a server that raised

Callers see these whatever the transport. On the wire they are a canonical code plus one ErrorInfo
(protos/gymapi/v1/errors.proto), or an ErrorStatus message where no gRPC status can travel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NoReturn

from gymapi.v1.errors_pb2 import ErrorReason, ErrorStatus

if TYPE_CHECKING:
    import grpc

__all__ = [
    "Aborted",
    "AlreadyExists",
    "Cancelled",
    "DeadlineExceeded",
    "GymdError",
    "Internal",
    "InvalidRequest",
    "LimitReached",
    "NotFound",
    "NotReady",
    "OutOfRange",
    "PermissionDenied",
    "Unavailable",
    "Unimplemented",
    "abort",
    "as_gymd_error",
    "error",
    "from_rpc_error",
    "from_status_message",
    "to_status_message",
]

DOMAIN = "gymd"
_PREFIX = "ERROR_REASON_"
_CODE_TEXT = 1500
"""Characters of what a server's own code raised that are told."""


class GymdError(Exception):
    """A call failed. `str()` is a sentence for people that says what to do next.

    Attributes:
        code: canonical gRPC status code, 1 to 16.
        reason: value of ErrorReason.
        metadata: every value that the message mentions.
        retry_delay: seconds after which trying again may help, or None.
    """

    code: ClassVar[int] = 13

    def __init__(
        self,
        message: str,
        *,
        reason: int = ErrorReason.ERROR_REASON_INTERNAL,
        metadata: dict[str, str] | None = None,
        retry_delay: float | None = None,
    ) -> None:
        # Half a surrogate pair, from a file's name or a model's JSON, is no text that can be sent.
        message = message.encode(errors="backslashreplace").decode()
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.metadata = metadata or {}
        self.retry_delay = retry_delay

    @property
    def reason_name(self) -> str:
        """The reason as it stands in ErrorInfo, such as SERVER_NOT_FOUND."""
        if self.reason not in ErrorReason.values():  # of a peer that is newer than this one
            return _REASON_OF_CODE.get(self.code, "INTERNAL")
        return ErrorReason.Name(self.reason).removeprefix(_PREFIX)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        # Errors cross process pools; the default would lose the keyword arguments.
        return _rebuild, (type(self), self.message, self.reason, self.metadata, self.retry_delay)


def _rebuild(
    kind: type[GymdError], message: str, reason: int, metadata: dict[str, str], retry_delay: float | None
) -> GymdError:
    return kind(message, reason=reason, metadata=metadata, retry_delay=retry_delay)


class Cancelled(GymdError):
    """The caller cancelled the call or went away."""

    code = 1


class InvalidRequest(GymdError):
    """The request is wrong; sending it again gives the same answer."""

    code = 3


class DeadlineExceeded(GymdError):
    """The call did not end before its deadline."""

    code = 4


class NotFound(GymdError):
    """There is no such server, session, tool or model."""

    code = 5


class AlreadyExists(GymdError):
    """The name is taken."""

    code = 6


class PermissionDenied(GymdError):
    """The model endpoint refused the credentials."""

    code = 7


class LimitReached(GymdError):
    """A credit, size, rate or capacity limit is reached."""

    code = 8


class NotReady(GymdError):
    """The server is registered but cannot work yet."""

    code = 9


class Aborted(GymdError):
    """The session was lost with its process."""

    code = 10


class OutOfRange(GymdError):
    """The resume point is gone."""

    code = 11


class Unimplemented(GymdError):
    """The receiver does not implement this."""

    code = 12


class Internal(GymdError):
    """A bug, or code of a server that raised."""

    code = 13


class Unavailable(GymdError):
    """Draining, unreachable, or the endpoint is down: later may help."""

    code = 14


_BY_CODE: dict[int, type[GymdError]] = {
    kind.code: kind
    for kind in (
        Cancelled,
        InvalidRequest,
        DeadlineExceeded,
        NotFound,
        AlreadyExists,
        PermissionDenied,
        LimitReached,
        NotReady,
        Aborted,
        OutOfRange,
        Unimplemented,
        Internal,
        Unavailable,
    )
}

# Reason -> canonical code, as the comments of errors.proto say (a test compares the two).
REASON_CODES: dict[str, int] = {
    "INVALID_REQUEST": 3,
    "PROTOCOL_VIOLATION": 3,
    "UPSTREAM_REJECTED": 3,
    "SERVER_NOT_FOUND": 5,
    "SESSION_NOT_FOUND": 5,
    "TOOL_NOT_FOUND": 5,
    "UPSTREAM_NOT_FOUND": 5,
    "NAME_TAKEN": 6,
    "SERVER_NOT_READY": 9,
    "UPSTREAM_AUTH": 7,
    "CREDIT_EXCEEDED": 8,
    "MESSAGE_TOO_LARGE": 8,
    "UPSTREAM_RATE_LIMITED": 8,
    "LIMIT_REACHED": 8,
    "DRAINING": 14,
    "PEER_UNREACHABLE": 14,
    "UPSTREAM_UNAVAILABLE": 14,
    "SESSION_LOST": 10,
    "RESUME_POINT_GONE": 11,
    "DEADLINE_EXCEEDED": 4,
    "CANCELLED": 1,
    "NOT_IMPLEMENTED": 12,
    "SERVER_CODE_FAILED": 13,
    "UPSTREAM_MALFORMED": 13,
    "INTERNAL": 13,
    "STORAGE_FULL": 8,
    "JUDGE_FAILED": 14,
}

# What a bare status means when the peer sent no ErrorInfo (a proxy, a foreign server, grpc itself).
_REASON_OF_CODE: dict[int, str] = {
    1: "CANCELLED",
    3: "INVALID_REQUEST",
    4: "DEADLINE_EXCEEDED",
    5: "SERVER_NOT_FOUND",
    6: "NAME_TAKEN",
    7: "UPSTREAM_AUTH",
    8: "LIMIT_REACHED",
    9: "SERVER_NOT_READY",
    10: "SESSION_LOST",
    11: "RESUME_POINT_GONE",
    12: "NOT_IMPLEMENTED",
    14: "PEER_UNREACHABLE",
}


def error(reason: str, message: str, *, retry_delay: float | None = None, **metadata: object) -> GymdError:
    """Makes the exception for a reason of errors.proto (without its prefix); metadata values become text."""
    return _BY_CODE[REASON_CODES[reason]](
        message,
        reason=ErrorReason.Value(_PREFIX + reason),
        metadata={key: str(value) for key, value in metadata.items()},
        retry_delay=retry_delay,
    )


def as_gymd_error(exception: BaseException, where: str) -> GymdError:
    """Wraps what a server's own code raised; a GymdError stays what it is."""
    if isinstance(exception, GymdError):
        return exception
    if isinstance(exception, TimeoutError):
        return error("DEADLINE_EXCEEDED", f"{where} did not end in time", where=where)
    kind = type(exception).__name__
    text = f"{where} raised {kind}: {exception}"
    # Some hold a whole document, and the headers that gRPC sends a status in take a few thousand bytes.
    text = text if len(text) <= _CODE_TEXT else f"{text[:_CODE_TEXT]} ..."
    return error("SERVER_CODE_FAILED", text, exception=kind, where=where)


def to_status_message(failure: GymdError) -> ErrorStatus:
    """The error as data, for frames and failures."""
    status = ErrorStatus(
        code=failure.code,
        reason=failure.reason,  # type: ignore[arg-type]
        message=failure.message,
        metadata=failure.metadata,
    )
    if failure.retry_delay is not None:
        status.retry_delay.FromNanoseconds(int(failure.retry_delay * 1e9))
    return status


def from_status_message(status: ErrorStatus) -> GymdError:
    """The exception for an error that came as data."""
    delay = status.retry_delay.ToNanoseconds() / 1e9 if status.HasField("retry_delay") else None
    return _BY_CODE.get(status.code, Internal)(
        status.message, reason=status.reason, metadata=dict(status.metadata), retry_delay=delay
    )


def from_rpc_error(failure: grpc.aio.AioRpcError, peer: str = "") -> GymdError:
    """The exception for a failed gRPC call; `peer` completes texts that grpc leaves bare."""
    from google.rpc import error_details_pb2
    from grpc_status import rpc_status

    code = failure.code().value[0]
    message = failure.details() or failure.code().name
    reason, metadata, delay = _REASON_OF_CODE.get(code, "INTERNAL"), {}, None
    try:
        status = rpc_status.from_call(failure)
    except ValueError:  # details that contradict the status line: believe the status line
        status = None
    for detail in status.details if status is not None else ():
        info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        if detail.Unpack(info) and info.domain == DOMAIN and info.reason in REASON_CODES:
            reason, metadata = info.reason, dict(info.metadata)
        elif detail.Unpack(retry):
            delay = retry.retry_delay.ToNanoseconds() / 1e9
    if status is None and peer:
        message, metadata = f"{peer}: {message}", {"peer": peer}
    kind = _BY_CODE.get(code, Internal)
    return kind(message, reason=ErrorReason.Value(_PREFIX + reason), metadata=metadata, retry_delay=delay)


async def abort(context: grpc.aio.ServicerContext, failure: GymdError) -> NoReturn:
    """Ends a gRPC call with the error's code, text, ErrorInfo and RetryInfo."""
    import grpc
    from google.protobuf.any_pb2 import Any
    from google.rpc import error_details_pb2, status_pb2

    status = status_pb2.Status(code=failure.code, message=failure.message)
    info = error_details_pb2.ErrorInfo(domain=DOMAIN, reason=failure.reason_name, metadata=failure.metadata)
    packed = Any()
    packed.Pack(info)
    status.details.append(packed)
    if failure.retry_delay is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromNanoseconds(int(failure.retry_delay * 1e9))
        packed = Any()
        packed.Pack(retry)
        status.details.append(packed)
    await context.abort(
        next(code for code in grpc.StatusCode if code.value[0] == failure.code),
        failure.message,
        trailing_metadata=(("grpc-status-details-bin", status.SerializeToString()),),
    )
    raise AssertionError("context.abort returned")  # pragma: no cover - abort always raises
