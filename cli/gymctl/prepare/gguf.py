"""Takes the tokenizer out of a GGUF model file, as a tokenizer.json."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["GgufError", "read_metadata", "tokenizer_json"]

_MAGIC = b"GGUF"
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_CONTROL, _USER_DEFINED = 3, 4
# More than any model file has; a damaged one may claim anything.
_MOST_VALUES = 10_000_000
_MOST_TEXT_BYTES = 1 << 24


class GgufError(ValueError):
    """The file is no GGUF model, or its tokenizer is of a kind that is not known here."""


def read_metadata(path: Path) -> dict[str, Any]:
    """The key-value pairs of a GGUF file (versions 2 and 3).

    Raises:
        GgufError: it is no such file, or is damaged.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise GgufError(f"{path} is no GGUF file")
        version = _number(file, "I")
        if version not in (2, 3):
            raise GgufError(f"{path} has version {version} of the format; 2 and 3 are known")
        _number(file, "Q")  # how many tensors
        return {_text(file): _value(file, _number(file, "I")) for _ in range(_size(file, _MOST_VALUES))}


def tokenizer_json(path: Path) -> str:
    """The tokenizer of a model as the text of a tokenizer.json.

    Known is the byte-level BPE of SmolLM: GPT-2's, with every digit a token.

    Raises:
        GgufError: the model has another kind of tokenizer.
        OSError: the file cannot be read.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE

    known = read_metadata(path)
    kind = known.get("tokenizer.ggml.model"), known.get("tokenizer.ggml.pre")
    if kind != ("gpt2", "smollm"):
        raise GgufError(f"{path} has a tokenizer of the kind {kind}; known is ('gpt2', 'smollm')")
    tokens, types = known["tokenizer.ggml.tokens"], known["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ", 1)) for merge in known["tokenizer.ggml.merges"]]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    added = [token for token, type_ in zip(tokens, types, strict=True) if type_ in (_CONTROL, _USER_DEFINED)]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in added])
    text: str = tokenizer.to_str()
    return text


def _value(file: BinaryIO, type_: int) -> Any:
    if type_ == _STRING:
        return _text(file)
    if type_ == _ARRAY:
        inner = _number(file, "I")
        size = _size(file, _MOST_VALUES)
        if inner in _NUMBERS:
            form = f"<{size}{_NUMBERS[inner]}"
            return list(struct.unpack(form, _bytes(file, struct.calcsize(form))))
        return [_value(file, inner) for _ in range(size)]
    if type_ not in _NUMBERS:
        raise GgufError(f"{file.name} holds a value of the unknown type {type_}")
    return _number(file, _NUMBERS[type_])


def _number(file: BinaryIO, form: str) -> Any:
    (number,) = struct.unpack(f"<{form}", _bytes(file, struct.calcsize(f"<{form}")))
    return number


def _size(file: BinaryIO, most: int) -> int:
    size: int = _number(file, "Q")
    if size > most:
        raise GgufError(f"{file.name} is damaged: a size of {size:,}")
    return size


def _text(file: BinaryIO) -> str:
    return _bytes(file, _size(file, _MOST_TEXT_BYTES)).decode(errors="replace")


def _bytes(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise GgufError(f"{file.name} is damaged: it ends too early")
    return data
