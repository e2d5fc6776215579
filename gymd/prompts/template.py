"""A model's own chat template and tokenizer, run here: a conversation becomes the ids of its prompt."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymd.convert import ConvertError, loads
from gymd.errors import GymdError, error

__all__ = ["Template", "load_template"]

_NEEDED = "jinja2 and tokenizers"
# What a template may raise beside errors of its own; RecursionError: arguments nested too deep to write.
_REFUSALS = (TypeError, ValueError, LookupError, OverflowError, RecursionError)
_SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token")


@dataclass(frozen=True, slots=True)
class Template:
    """Renders conversations and tokenizes text; made by `load_template`.

    Attributes:
        special: text of every special token, by id.
        encode: text to ids, without adding any.
        decode: ids to text, special tokens included.
    """

    special: dict[int, str]
    encode: Callable[[str], list[int]]
    decode: Callable[[Sequence[int]], str]
    _render: Callable[[dict[str, Any]], str]
    _names: dict[str, str]

    def render(
        self, messages: Sequence[dict[str, Any]], variables: Mapping[str, Any], *, answer: bool
    ) -> str:
        """The text of a conversation; `answer`: with the beginning of the assistant's turn behind it.

        Raises:
            ConvertError: the template refuses the conversation.
        """
        import jinja2

        try:
            text = self._render(
                {
                    **self._names,
                    **variables,
                    "messages": list(messages),
                    "add_generation_prompt": answer,
                }
            )
        except (jinja2.TemplateError, *_REFUSALS) as problem:
            raise ConvertError(f"the chat template refuses the conversation: {problem}", "input") from None
        # Arguments of calls may hold half a surrogate pair, which no tokenizer takes: written as JSON does.
        return text.encode("utf-8", "backslashreplace").decode()


def load_template(path: str) -> Template:
    """Reads `tokenizer.json`, `tokenizer_config.json` and, if it is there, `chat_template.jinja`.

    Args:
        path: their folder, or tokenizer.json in it.

    Raises:
        GymdError: INVALID_REQUEST, something is missing; the text says what.
    """
    try:
        import jinja2  # noqa: F401
        from tokenizers import Tokenizer
    except ImportError as missing:
        text = f"it needs the packages {_NEEDED}, and {missing.name} is missing: pip install "
        raise _unusable(path, text + _NEEDED.replace(" and", "")) from None
    folder = Path(path).expanduser()
    file = folder
    if folder.is_dir():
        file = folder / "tokenizer.json"
    else:
        folder = folder.parent
    if not file.is_file():
        raise _unusable(path, f"there is no file {file}; name the folder of the model's tokenizer")
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as problem:  # the library raises nothing more precise
        raise _unusable(path, f"{file} is no tokenizer: {problem}") from None
    settings = _settings(folder / "tokenizer_config.json", path)
    names = {name: text for name in _SPECIAL if (text := _token_text(settings.get(name)))}
    added = tokenizer.get_added_tokens_decoder()
    special = {number: token.content for number, token in added.items() if token.special}
    special |= {
        number: name for name in names.values() if (number := tokenizer.token_to_id(name)) is not None
    }
    source = _source(folder / "chat_template.jinja", settings, path)
    return Template(
        special=special,
        encode=lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
        decode=lambda ids: tokenizer.decode(ids, skip_special_tokens=False),
        _render=_compiled(source, path),
        _names=names,
    )


def _settings(file: Path, path: str) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        settings = loads(file.read_bytes())
    except (OSError, ValueError) as problem:
        raise _unusable(path, f"{file} is no JSON: {problem}") from None
    return settings if isinstance(settings, dict) else {}


def _source(file: Path, settings: dict[str, Any], path: str) -> str:
    """The text of the template: its own file, or in the settings, where it may have a name."""
    if file.is_file():
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, ValueError) as problem:
            raise _unusable(path, f"{file} cannot be read: {problem}") from None
    source = settings.get("chat_template")
    if isinstance(source, list):
        named = {entry.get("name"): entry.get("template") for entry in source if isinstance(entry, dict)}
        source = named.get("default")
    if not isinstance(source, str):
        raise _unusable(path, "it has no chat template; put chat_template.jinja beside tokenizer.json")
    return source


def _token_text(token: Any) -> str:
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else ""


def _compiled(source: str, path: str) -> Callable[[dict[str, Any]], str]:
    """The template in a sandbox, with the names that templates written for transformers expect."""
    import jinja2
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """The block that marks what is trained on; it only wraps."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    sandbox = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation]
    )
    sandbox.filters["tojson"] = _tojson
    sandbox.globals["raise_exception"] = raise_exception
    sandbox.globals["strftime_now"] = time.strftime
    try:
        return sandbox.from_string(source).render
    except jinja2.TemplateError as problem:
        raise _unusable(path, f"its chat template is broken: {problem}") from None


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as the templates' authors had it in their training data: with blanks, not escaped."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _unusable(path: str, why: str) -> GymdError:
    return error(
        "INVALID_REQUEST", f"tokenizer {path!r} cannot be used: {why}", field="tokenizer", value=path
    )
