"""Logprobs straight from vLLM's JSON: the same numbers as by parsing, and nothing else for any other text."""

from __future__ import annotations

import math
import random
import struct
import sys
from typing import Any

import orjson
import pytest

from gymd.convert import (
    ChatOptions,
    ConvertError,
    PackedLogprobs,
    load_chat,
    loads,
    response_from_chat,
    unpack_ids,
)

pytest.importorskip("numpy")

WANTED = ChatOptions(return_token_id_information=True)
LENGTH = 1200


def body(count: int = LENGTH, seed: int = 1, *, named: bool = False, text: str = "x") -> bytes:
    """A chat completion as vLLM writes it."""
    rng = random.Random(seed)
    ids = [rng.choice((0, 7, rng.randrange(100), rng.randrange(200_000), 9_999_999)) for _ in range(count)]
    values = [rng.choice((-0.0, 0.0, -9999.0, -rng.random(), -math.exp(-40 * rng.random()))) for _ in ids]
    values = [struct.unpack("f", struct.pack("f", value))[0] for value in values]
    entries = [
        {
            "token": f"token_id:{number}",
            "logprob": value,
            "bytes": list(b" the")[: rng.randrange(5)],
            "top_logprobs": [],
        }
        for number, value in zip(ids, values, strict=True)
    ]
    choice: dict[str, Any] = {"index": 0, "message": {"role": "assistant", "content": text}}
    choice |= {"logprobs": {"content": entries}, "finish_reason": "stop"}
    chat: dict[str, Any] = {"id": "c", "choices": [choice], "usage": None, "system_fingerprint": "f" * 50}
    if named:
        choice["token_ids"], chat["prompt_token_ids"] = ids, [1, 2]
    return orjson.dumps(chat)


def entry(number: int, value: float, length: int) -> dict[str, Any]:
    """One token of the logprobs."""
    spelled = list(b" the")[:length]
    return {"token": f"token_id:{number}", "logprob": value, "bytes": spelled, "top_logprobs": []}


def trace(chat: Any) -> Any:
    """The tokens of a completion, or why there are none."""
    prompt = None if isinstance(chat, dict) and chat.get("prompt_token_ids") else [1, 2]
    try:
        found = response_from_chat(chat, options=WANTED, prompt_token_ids=prompt).output[-1].token_trace
    except ConvertError:
        return "refused"
    return found.SerializeToString()


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_numbers_are_those_of_the_json(named: bool, seed: int) -> None:
    data = body(seed=seed, named=named)
    chat = load_chat(data)
    packed = chat["choices"][0]["logprobs"]
    assert isinstance(packed, PackedLogprobs)
    entries = orjson.loads(data)["choices"][0]["logprobs"]["content"]
    assert packed.ids is not None
    assert unpack_ids(packed.ids) == [int(each["token"].removeprefix("token_id:")) for each in entries]
    values = struct.unpack(f"<{LENGTH}f", packed.logprobs)
    assert list(values) == [each["logprob"] for each in entries]
    assert trace(chat) == trace(orjson.loads(data)) != "refused"


def test_short_answers_are_parsed() -> None:
    data = body(5)
    assert load_chat(data) == orjson.loads(data)


def test_without_numpy_everything_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gymd.convert._entries", raising=False)
    monkeypatch.setitem(sys.modules, "numpy", None)
    data = body()
    assert load_chat(data) == orjson.loads(data)


def test_what_the_model_wrote_cannot_look_like_logprobs() -> None:
    spoof = '"logprobs":{"content":[{"token":"token_id:666","logprob":-1.0,"bytes":[],"top_logprobs":[]}]'
    data = body(text=spoof * 3)
    assert trace(load_chat(data)) == trace(orjson.loads(data)) != "refused"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            b'"top_logprobs":[]}]',
            b'"top_logprobs":[{"token":"token_id:1","logprob":-1.0,"bytes":[],"top_logprobs":[]}]}]',
        ),
        (b'{"token":"token_id:', b'{"token": "token_id:'),
        (b'{"token":"token_id:', b'{"token":"word'),
        (b'"bytes":[', b'"rank":1,"bytes":['),
        (b',"bytes":[]', b',"bytes":null'),
        (b'"logprob":-9999.0', b'"logprob":null'),
        (b'"logprob":-9999.0', b'"logprob":"-1"'),
        (b'"token_id:7"', b'"token_id:"'),
        (b'"token_id:7"', b'"token_id:4294967296"'),
        (b'"token_id:7"', b'"token_id:-7"'),
        (b'"index":0', b'"index":0,"extra":{"logprobs":{"content":[]}}'),
        (b'"choices":[', b'"choices":[{"index":1},'),
    ],
)
@pytest.mark.parametrize("often", [1, -1])
def test_other_forms_are_parsed(old: bytes, new: bytes, often: int) -> None:
    data = body().replace(old, new, often)
    assert data != body()
    assert trace(load_chat(data)) == trace(orjson.loads(data))


def test_any_damage_gives_what_parsing_gives() -> None:
    """Except within the bytes of a token, which are not read, no damage goes unseen or changes a number."""
    rng = random.Random(3)
    whole = body(named=False)
    seen = 0
    for _ in range(300):
        at = rng.randrange(len(whole) - 60)
        piece = rng.choice((b"", b'"', b"{", b"}", b"]", b",", b"1", b"-", b"e", b"\\", b"[]", b"null", b":"))
        data = whole[:at] + piece + whole[at + rng.randrange(3) :]
        unread = whole.rfind(b'"bytes":[', 0, at + 1) > whole.rfind(b'"top_logprobs"', 0, at + 1)
        try:
            parsed = trace(loads(data))
        except ValueError:
            parsed = None
        try:
            found = trace(load_chat(data))
        except ValueError:
            found = None
        if parsed is None and found is not None:
            assert unread
            parsed = trace(orjson.loads(whole))
        assert found == parsed
        seen += found is None
    assert seen > 50


def test_truncated_answers_are_no_json() -> None:
    data = body()
    for end in (len(data) - 1, len(data) - 100, len(data) // 2):
        with pytest.raises(ValueError, match=r"."):
            load_chat(data[:end])
