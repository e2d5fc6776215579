"""What an HTTP outcome of a model endpoint means: one reason, and a text that tells what to do."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import orjson
from multidict import CIMultiDict

from gymd.errors import GymdError, error

__all__ = ["Endpoint", "Trial", "is_context_overflow", "outcome_of_failure", "outcome_of_status"]

_BODY_CHARS = 2_000
_BODY_IN_TEXT = 300
_JSON = "application/json"
_MIN_SECRET = 6


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible endpoint, and the configuration keys that texts tell the user to correct.

    Attributes:
        base_url: with scheme and version path, such as https://api.openai.com/v1.
        api_key: sent as a bearer token unless `headers` hold another credential; "" sends none.
        model: name sent to the endpoint, for texts.
        headers: further request headers.
        query: appended to every URL, such as api-version=2024-10-21.
        url_key, key_key, model_key: names of the configuration keys.
    """

    base_url: str
    api_key: str = ""
    model: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    query: str = ""
    url_key: str = "base_url"
    key_key: str = "api_key"
    model_key: str = "model"
    sent_headers: CIMultiDict[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            shown = without_secrets(self.base_url)
            text = f"{self.url_key} is {shown!r}; it must be like https://api.openai.com/v1"
            raise error("INVALID_REQUEST", text, field=self.url_key, value=shown)
        object.__setattr__(self, "base_url", self.base_url.rstrip("/"))
        sent = CIMultiDict({"Content-Type": _JSON, "Accept": _JSON})
        if self.api_key:
            sent["Authorization"] = f"Bearer {self.api_key}"
        sent.update(self.headers)
        object.__setattr__(self, "sent_headers", sent)

    def secrets(self) -> list[str]:
        """Values that never appear in a text."""
        values = [self.api_key, *self.headers.values()]
        return [value for value in values if len(value) >= _MIN_SECRET]


@dataclass(slots=True)
class Trial:
    """One call under way: what texts and retries need to know of it."""

    endpoint: Endpoint
    path: str
    attempts: int = 0
    again: bool = False
    retry_after: float | None = None

    @property
    def full_url(self) -> str:
        """The URL to call."""
        query = f"?{self.endpoint.query}" if self.endpoint.query else ""
        return f"{self.endpoint.base_url}{self.path}{query}"

    @property
    def url(self) -> str:
        """The URL for people: without user, password and query."""
        return without_secrets(self.endpoint.base_url) + self.path

    def make(self, reason: str, text: str, status: int | str = "", body: str = "") -> GymdError:
        """The error with the metadata of every outcome."""
        return error(
            reason,
            text,
            retry_delay=self.retry_after,
            upstream_status=status,
            upstream_body=body[:_BODY_CHARS],
            url=self.url,
            attempts=self.attempts,
        )

    def malformed(self, problem: str, body: bytes | Any) -> GymdError:
        """The answer is not one of the API."""
        shown = self.shown(body if isinstance(body, bytes) else orjson.dumps(body, default=str))
        text = (
            f"the answer of {self.url} {problem}; does {self.endpoint.url_key} point at an OpenAI-compatible "
            f"API? It began with: {shown[:_BODY_IN_TEXT] or '(nothing)'}"
        )
        return self.make("UPSTREAM_MALFORMED", text, 200, shown)

    def too_large(self, size: int, limit: int) -> GymdError:
        """The answer is larger than any response can be."""
        return self.make(
            "UPSTREAM_MALFORMED", f"the answer of {self.url} has {size} bytes; {limit} are the limit", 200
        )

    def too_late(self, seconds: float) -> GymdError:
        """The deadline came first."""
        text = f"{self.url} did not answer within {seconds:.3g} s ({self.attempts} attempts); "
        text += "raise the deadline of model calls, or ask for fewer tokens with max_output_tokens"
        failure = self.make("DEADLINE_EXCEEDED", text)
        failure.metadata["deadline_seconds"] = f"{seconds:.3g}"
        return failure

    def shown(self, body: bytes) -> str:
        """A body as text without credentials: some endpoints repeat the key that they refuse."""
        text = body[: 4 * _BODY_CHARS].decode("utf-8", "replace")
        for secret in self.endpoint.secrets():
            text = text.replace(secret, "***")
        return text[:_BODY_CHARS]


def outcome_of_status(trial: Trial, status: int, content: bytes, location: str) -> GymdError:
    """The error for an HTTP status that is no success; may forbid a retry in `trial`."""
    body = trial.shown(content)
    said = _message(body)
    end = trial.endpoint
    quoted = f' It says: "{said}"' if said else ""
    if status in (401, 403):
        given = f"check {end.key_key}" if end.api_key or end.headers else f"set {end.key_key}; none is set"
        text = f"{trial.url} refused the credentials (HTTP {status}); {given}.{quoted}"
        return trial.make("UPSTREAM_AUTH", text, status, body)
    if status in (404, 405) or 300 <= status < 400:
        return trial.make(
            "UPSTREAM_NOT_FOUND", _not_found(trial, status, body, location) + quoted, status, body
        )
    if status == 429:
        if "insufficient_quota" in body:
            trial.again = False
            text = f"the quota of the account at {trial.url} is used up; check its plan and billing.{quoted}"
        else:
            text = (
                f"{trial.url} answered 429 (too many requests) to {trial.attempts} attempts; lower the "
                f"concurrency, or raise the rate limit of the account.{quoted}"
            )
        return trial.make("UPSTREAM_RATE_LIMITED", text, status, body)
    if status >= 500 or status in (408, 425):
        text = f"{trial.url} answered HTTP {status} to {trial.attempts} attempts; see the log of the engine"
        return trial.make("UPSTREAM_UNAVAILABLE", f"{text}.{quoted}", status, body)
    text = f"{trial.url} refused the request (HTTP {status}); correct what it names.{quoted}"
    return trial.make("UPSTREAM_REJECTED", text, status, body)


def outcome_of_failure(trial: Trial, failure: Exception) -> GymdError:
    """The error for a request that got no answer; may forbid a retry in `trial`."""
    url, key, tries = trial.url, trial.endpoint.url_key, f"({trial.attempts} attempts)"
    if isinstance(failure, aiohttp.InvalidURL):
        trial.again = False
        text = f"{url} is no valid URL; correct {key}"
    elif isinstance(failure, aiohttp.ClientSSLError):
        trial.again = False
        text = f"no secure connection to {url}: {failure}; check {key} (http or https?) and the certificate"
    elif isinstance(failure, aiohttp.ClientConnectorDNSError):
        text = f"the host of {url} is unknown {tries}; correct {key}, or check the network"
    elif _errno(failure) == errno.ECONNREFUSED:
        text = f"connection refused by {url} {tries}; start the engine there, or correct {key}"
    elif isinstance(failure, aiohttp.ConnectionTimeoutError):
        text = f"no connection to {url} {tries}: its host does not answer; check {key} and firewalls"
    elif _errno(failure) in (errno.EMFILE, errno.ENFILE):
        text = f"this process is out of file descriptors for {url}; raise ulimit -n, or lower the concurrency"
    elif isinstance(failure, aiohttp.ClientConnectorError):
        text = f"no connection to {url} {tries}: {failure.os_error}; check {key}"
    else:
        reason = str(failure) or type(failure).__name__
        text = f"{url} broke the connection off {tries}: {reason}; see the log of the engine"
    return trial.make("UPSTREAM_UNAVAILABLE", text)


_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|context (length|window|size)|maximum context|max_model_len"
    r"|prompt is too long|input is too long|max_tokens|max_completion_tokens|max_output_tokens",
    re.IGNORECASE,
)
# A limit or a parameter that the model never takes is a mistake of the configuration, not of the prompt.
_MISTAKE = re.compile(
    r"unsupported|not supported|unrecognized|unknown parameter|supports at most|extra inputs", re.IGNORECASE
)


def is_context_overflow(failure: GymdError) -> bool:
    """Whether an endpoint refused a request because the conversation does not fit its context."""
    if failure.reason_name != "UPSTREAM_REJECTED" or failure.metadata.get("upstream_status") not in (
        "400",
        "413",
    ):
        return False
    body = failure.metadata.get("upstream_body", "")
    if "context_length_exceeded" in body:
        return True
    return _OVERFLOW.search(body) is not None and _MISTAKE.search(body) is None


def without_secrets(url: str) -> str:
    """The URL without user, password, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")).rstrip("/")


def _not_found(trial: Trial, status: int, body: str, location: str) -> str:
    end = trial.endpoint
    if 300 <= status < 400:
        target = without_secrets(location) or "another place"
        return f"{trial.url} redirects to {target} (HTTP {status}); put the final address into {end.url_key}."
    if "model_not_found" in body or (end.model and end.model in body) or "DeploymentNotFound" in body:
        return f"{trial.url} has no model {end.model!r} (HTTP {status}); correct {end.model_key}."
    if end.base_url.endswith("/v1"):
        hint = "is it the right host, and does it serve this API?"
    else:
        hint = "most end with /v1."
    return f"there is nothing at {trial.url} (HTTP {status}); correct {end.url_key}: {hint}"


def _message(body: str) -> str:
    """The text of an error body, whatever its form; shortened."""
    try:
        value: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = body
    for key in ("error", "message", "detail"):
        if isinstance(value, dict) and value.get(key):
            value = value[key]
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    return " ".join(text.split())[:_BODY_IN_TEXT]


def _errno(failure: Exception) -> int | None:
    """The errno below; several addresses of one host (::1, 127.0.0.1) fail as a group."""
    inner = getattr(failure, "os_error", failure)
    if isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    return getattr(inner, "errno", None)
