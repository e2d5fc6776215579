"""Keeps secrets out of everything that people or logs get to see."""

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["MASK", "is_secret_key", "mask", "scrub", "secret_values"]

MASK = "***"
"""What stands in the place of a secret."""

MIN_SCRUBBED_LENGTH = 8
"""Values shorter than this ("EMPTY", "none") are no secrets and would blank out innocent text."""

# Whatever lies below such a key is secret, whatever its type.
_SECRET = re.compile(
    r"api_?key|password|passwd|passphrase|secret|authorization|credential|private_?key|access_?key"
)
_HEADERS = re.compile(r"headers?$|cookies?$")
# Only strings: max_output_tokens is a number, token_id_capture a mapping, and a tokenizer no token.
_TOKEN = re.compile(r"tokens?(?![a-z])")
# Secrets that give themselves away anywhere: keys by their prefix, bearer tokens, passwords in URLs.
_SHAPES = (
    (re.compile(r"\b(?:sk|pk|nvapi|hf|ghp|glpat|xai)[-_][A-Za-z0-9_\-]{8,}"), MASK),
    (re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=\-]{8,}"), rf"\1 {MASK}"),
    (re.compile(r"://[^/\s:@]+:[^/\s@]+@"), f"://{MASK}@"),
)


def is_secret_key(key: str) -> bool:
    """Whether values under a key are secret by its name: api keys, passwords, tokens, secrets, headers."""
    name = key.lower().replace("-", "_")
    return bool(_always_secret(name) or _TOKEN.search(name))


def mask(node: Any) -> Any:
    """A copy of a configuration tree in which every secret is replaced by `***`."""
    hide = secret_values(node)
    return _mask(node, hide, secret=False)


def secret_values(node: Any) -> list[str]:
    """The secrets of a tree that are long enough to be told from ordinary words."""
    found: set[str] = set()
    _collect(node, found, secret=False)
    return sorted(found, key=len, reverse=True)


def scrub(text: str, secrets: Iterable[str] = ()) -> str:
    """Replaces given secrets, and whatever has the shape of one, in a text."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    for shape, replacement in _SHAPES:
        text = shape.sub(replacement, text)
    return text


def _always_secret(name: str) -> bool:
    return bool(_SECRET.search(name) or _HEADERS.search(name))


def _below(key: Any, value: Any, secret: bool) -> bool:
    """Whether a value is secret, given its key and whether its surroundings are."""
    name = str(key).lower().replace("-", "_")
    return secret or _always_secret(name) or (isinstance(value, str) and bool(_TOKEN.search(name)))


def _mask(node: Any, hide: list[str], *, secret: bool) -> Any:
    if isinstance(node, dict):
        return {key: _mask(value, hide, secret=_below(key, value, secret)) for key, value in node.items()}
    if isinstance(node, list):
        return [_mask(value, hide, secret=secret) for value in node]
    if secret:
        # None, "" and switches tell nothing; hiding them would hide that a key is not set.
        return node if node is None or node == "" or isinstance(node, bool) else MASK
    return scrub(node, hide) if isinstance(node, str) else node


def _collect(node: Any, found: set[str], *, secret: bool) -> None:
    if isinstance(node, dict):
        for key, value in node.items():
            _collect(value, found, secret=_below(key, value, secret))
    elif isinstance(node, list):
        for value in node:
            _collect(value, found, secret=secret)
    elif secret and node is not None and not isinstance(node, bool):
        text = str(node)
        # An unresolved reference is a name, not the secret behind it.
        if len(text) >= MIN_SCRUBBED_LENGTH and "${" not in text:
            found.add(text)
