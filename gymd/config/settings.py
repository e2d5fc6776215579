"""The daemon's own settings: key `gymd:` of the files < environment `GYMD_*` < override `gymd.<key>=...`."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from gymd.config.problems import COMMAND_LINE, Key, Report, suggest

__all__ = ["DaemonSettings", "Deadlines", "load_settings", "split_address"]

LogLevel = Literal["debug", "info", "warning", "error"]

# Where the daemon is reached. Loopback: nothing is encrypted or authenticated until the user says otherwise.
DEFAULT_LISTEN = "127.0.0.1:50161"
# Worker processes of the pool; 0 = one per CPU core but one, which the daemon needs.
DEFAULT_POOL_HOSTS = 0
# A server that does not renew for so long turns unhealthy. Three renewals fit in: one lost is no failure.
DEFAULT_LEASE_TTL_S = 15.0
# How long rollouts under way may finish once the daemon was told to stop.
DEFAULT_GRACE_S = 10.0
# A crashed host starts again after the first wait, then after twice as long, up to the second.
DEFAULT_RESTART_BACKOFF_MIN_S = 0.5
DEFAULT_RESTART_BACKOFF_MAX_S = 30.0
# Longest state_dir with room for a host's name within the 107 bytes that a socket's path may have.
MAX_SOCKET_FOLDER = 50
# A whole rollout: long agentic ones take tens of minutes.
DEFAULT_ROLLOUT_S = 3600.0
# One model call: 32k tokens from a busy engine.
DEFAULT_MODEL_S = 1200.0
# One tool call.
DEFAULT_TOOL_S = 120.0
# One verification: code against many tests, or a judge asked twice.
DEFAULT_VERIFY_S = 600.0
# An accepted task waits at most so long for its turn; credits keep queues short: this catches the forgotten.
DEFAULT_QUEUE_S = 86_400.0
# How often a rollout is tried again after a failure of the infrastructure (never after one of the model).
DEFAULT_INFRA_RETRIES = 2
# Rollouts under way at once; at about 24 KB per waiting rollout this bounds the memory near 200 MB.
DEFAULT_MAX_ROLLOUTS_IN_FLIGHT = 8192
# Results that nobody has fetched yet. Disks are larger; a forgotten trainer should not fill them.
DEFAULT_JOURNAL_MAX_BYTES = 16 * 1024**3
# A trainer that crashed on a Friday evening finds its session on Saturday.
DEFAULT_JOURNAL_RETENTION_S = 86_400.0
DEFAULT_LOG_LEVEL: LogLevel = "info"

ENVIRONMENT_PREFIX = "GYMD_"
MAX_PORT = 65_535


def default_state_dir() -> Path:
    """Where the journal, logs and environments live: GYMD_STATE_DIR, else `gymd` under XDG_STATE_HOME."""
    if own := os.environ.get("GYMD_STATE_DIR"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "gymd"


def split_address(address: str) -> tuple[str, int]:
    """Splits `host:port`; an IPv6 host stands in brackets.

    Raises:
        ValueError: if there is no host, or no port from 0 (any free one) to 65535.
    """
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not host or (":" in host and not bracketed):
        raise ValueError("must be host:port, such as 127.0.0.1:50161 or [::1]:50161")
    if not port.isascii() or not port.isdigit() or int(port) > MAX_PORT:
        raise ValueError(f"the port must be a number from 0 (any free one) to {MAX_PORT}")
    return host.strip("[]"), int(port)


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Deadlines(_Settings):
    """The longest time each part of a rollout may take, in seconds."""

    rollout_s: float = Field(default=DEFAULT_ROLLOUT_S, gt=0)
    """The whole rollout, from dispatch to result."""
    model_s: float = Field(default=DEFAULT_MODEL_S, gt=0)
    """One model call."""
    tool_s: float = Field(default=DEFAULT_TOOL_S, gt=0)
    """One tool call."""
    verify_s: float = Field(default=DEFAULT_VERIFY_S, gt=0)
    """One verification."""
    queue_s: float = Field(default=DEFAULT_QUEUE_S, gt=0)
    """The wait of an accepted task before its dispatch."""


class DaemonSettings(_Settings):
    """How the daemon itself runs.

    Every key can be set as `gymd.<key>` in a file or override and as `GYMD_<KEY>` in the environment
    (`gymd.deadlines.tool_s` and `GYMD_DEADLINES_TOOL_S`).
    """

    listen: str = DEFAULT_LISTEN
    """Address to serve on, `host:port`; port 0 takes any free one."""
    unix_socket: Path | None = None
    """Path of a unix socket to serve on as well; none by default."""
    host_sockets: bool = False
    """Hosts listen on unix sockets in the state folder instead of loopback ports; fixed ports stay ports."""
    state_dir: Path = Field(default_factory=default_state_dir)
    """Folder for the journal, logs and virtual environments."""
    pool_hosts: int = Field(default=DEFAULT_POOL_HOSTS, ge=0)
    """Worker processes for `shared` servers; 0 chooses by the number of cores (see `host_count`)."""
    lease_ttl_s: float = Field(default=DEFAULT_LEASE_TTL_S, gt=0)
    """Time to live of a registration without renewal."""
    grace_s: float = Field(default=DEFAULT_GRACE_S, ge=0)
    """Time that work under way gets when the daemon stops."""
    restart_backoff_min_s: float = Field(default=DEFAULT_RESTART_BACKOFF_MIN_S, gt=0)
    """Wait before the first restart of a crashed host."""
    restart_backoff_max_s: float = Field(default=DEFAULT_RESTART_BACKOFF_MAX_S, gt=0)
    """Longest wait between two restarts."""
    deadlines: Deadlines = Field(default_factory=lambda: Deadlines())
    """Time limits of the parts of a rollout."""
    infra_retries: int = Field(default=DEFAULT_INFRA_RETRIES, ge=0)
    """Retries of one rollout after failures of the infrastructure."""
    max_rollouts_in_flight: int = Field(default=DEFAULT_MAX_ROLLOUTS_IN_FLIGHT, ge=1)
    """Rollouts under way at once, over all clients."""
    durability: bool = True
    """Whether sessions with a resume window survive a restart of the daemon; `off` for throwaway runs."""
    journal_dir: Path | None = None
    """Folder for the journal; by default `journal` in the state folder."""
    journal_max_bytes: int = Field(default=DEFAULT_JOURNAL_MAX_BYTES, ge=1)
    """Tasks and undelivered results that the journal may hold; beyond it new tasks are refused."""
    journal_retention_s: float = Field(default=DEFAULT_JOURNAL_RETENTION_S, gt=0)
    """How long a session is kept for a client that stays away; clients may ask for less."""
    log_level: LogLevel = DEFAULT_LOG_LEVEL
    """The least severe message that is logged."""

    @property
    def host_count(self) -> int:
        """The number of worker processes after `pool_hosts: 0` has been settled."""
        return self.pool_hosts or max(1, (os.cpu_count() or 1) - 1)

    @field_validator("listen")
    @classmethod
    def _is_address(cls, value: str) -> str:
        split_address(value)
        return value

    @field_validator("log_level", mode="before")
    @classmethod
    def _lower(cls, value: Any) -> Any:
        return value.lower() if isinstance(value, str) else value

    @field_validator("state_dir", "unix_socket", "journal_dir")
    @classmethod
    def _expand_home(cls, value: Path | None) -> Path | None:
        return value.expanduser() if value else value

    @model_validator(mode="after")
    def _bounds_in_order(self) -> "DaemonSettings":
        if self.restart_backoff_min_s > self.restart_backoff_max_s:
            raise ValueError("restart_backoff_min_s must not exceed restart_backoff_max_s")
        if self.host_sockets and len(str(self.state_dir)) > MAX_SOCKET_FOLDER:
            raise ValueError(f"host_sockets needs a state_dir of at most {MAX_SOCKET_FOLDER} characters")
        return self


def load_settings(block: Any, report: Report, environ: Mapping[str, str]) -> DaemonSettings:
    """Builds the settings from the merged `gymd:` block and the environment, reporting what is wrong.

    Returns the defaults if anything is; the caller raises the report in the end.
    """
    root: Key = ("gymd",)
    if block is not None and not isinstance(block, dict):
        report.add(
            root, "must be a mapping of settings.", f"Known: {', '.join(DaemonSettings.model_fields)}."
        )
        return DaemonSettings()
    values = _copy(block or {})
    for path, variable in _variables(DaemonSettings):
        key = (*root, *path)
        # An override beats the environment, the environment beats the files.
        if environ.get(variable) and report.origins.of(key) != COMMAND_LINE:
            _put(values, path, environ[variable])
            report.origins.record(None, f"environment variable {variable}", key)
    try:
        return DaemonSettings.model_validate(values)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_input=False):
            key = (*root, *(str(part) for part in detail["loc"]))
            if detail["type"] == "extra_forbidden":
                model = Deadlines if "deadlines" in key[:-1] else DaemonSettings
                report.add(
                    key, "is no setting of the daemon.", suggest(key[-1], model.model_fields, label="Known")
                )
            else:
                message = detail["msg"].removeprefix("Value error, ")
                report.add(key, message[:1].lower() + message[1:] + ".", "Correct the value.")
        return DaemonSettings()


def _variables(model: type[BaseModel], path: Key = ()) -> Iterator[tuple[Key, str]]:
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _variables(inner, (*path, name))
        else:
            yield (*path, name), ENVIRONMENT_PREFIX + "_".join((*path, name)).upper()


def _copy(node: Any) -> Any:
    return {key: _copy(value) for key, value in node.items()} if isinstance(node, dict) else node


def _put(values: dict[str, Any], path: Key, value: str) -> None:
    for name in path[:-1]:
        inner = values.get(name)
        if not isinstance(inner, dict):
            inner = values[name] = {}
        values = inner
    values[path[-1]] = value
