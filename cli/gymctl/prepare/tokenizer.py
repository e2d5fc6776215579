"""Which tokenizer counts: the one that the user names, or that of the local model."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from gymctl.errors import CliError
from gymctl.output import note
from gymctl.state import state_dir

__all__ = ["NO_TOKENIZER", "TokenizerFile", "find_tokenizer"]

NO_TOKENIZER = "none"
"""What to name for no token counts at all."""

_PACKAGES = ("tokenizers", "numpy")
_DEFAULT_NAME = "SmolLM2-135M-Instruct"
_FETCH = "gymservers.models.local_model.fetch"
_FILE = "tokenizer.json"
_WITHOUT = f"Name a {_FILE} with --tokenizer, or leave token counts out with --tokenizer {NO_TOKENIZER}."


@dataclass(frozen=True)
class TokenizerFile:
    """A tokenizer.json."""

    path: Path
    name: str
    """What metrics say about it, so that counts of two tokenizers are never compared."""


def find_tokenizer(wanted: str | None) -> TokenizerFile | None:
    """The tokenizer of a name.

    Args:
        wanted: path of a tokenizer.json, or of the folder that holds it; `none`; None for the local model's.

    Returns: None if none is wanted.

    Raises:
        CliError: there is none.
    """
    if wanted == NO_TOKENIZER:
        return None
    if missing := [name for name in _PACKAGES if importlib.util.find_spec(name) is None]:
        hint = f"Install it: pip install {' '.join(missing)}. Or count none: --tokenizer {NO_TOKENIZER}."
        raise CliError(f"counting tokens needs the packages {' and '.join(_PACKAGES)}", hint)
    if wanted is None:
        return TokenizerFile(_default(), _DEFAULT_NAME)
    path = Path(wanted).expanduser()
    path = path / _FILE if path.is_dir() else path
    if not path.is_file():
        raise CliError(f"there is no file {path}", f"Name a {_FILE} with --tokenizer.")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return TokenizerFile(path, f"{path.resolve().parent.name}/{path.name} sha256:{digest[:16]}")


def _default() -> Path:
    """The local model's tokenizer, taken out of the model once."""
    folder = state_dir() / "models"
    path = folder / f"{_DEFAULT_NAME}.{_FILE}"
    if path.is_file():
        return path
    from gymctl.prepare.gguf import GgufError, tokenizer_json

    try:
        text = tokenizer_json(_fetch_model(folder))
    except GgufError as problem:
        raise CliError(f"the default tokenizer cannot be made: {problem}", _WITHOUT) from None
    temporary = folder / f".{path.name}.{os.getpid()}"
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _fetch_model(folder: Path) -> Path:
    """The local model's weights; that server's own code fetches them where they are not there yet."""
    note(f"Getting the default tokenizer, once ({_DEFAULT_NAME}; name another with --tokenizer).")
    command = [sys.executable, "-P", "-m", _FETCH, str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise CliError("the default tokenizer cannot be fetched; the reason is above", _WITHOUT)
    return Path(done.stdout.strip())
