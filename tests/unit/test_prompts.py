"""What prompts of token ids are made of: chat template, memory, and answers taken apart."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from gymapi.v1.responses_pb2 import Response
from gymd.convert import trace_ids, unpack_ids
from gymd.errors import GymdError
from gymd.prompts import TokenMemory, load_template, split_answer
from tests.fakes import small_tokenizer as small

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return small.write_tokenizer(tmp_path / "model")


async def test_arguments_that_are_nested_too_deep_are_refused(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ messages | tojson }}")
    nested: Any = 1
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(ValueError, match="refuses the conversation"):
        load_template(str(folder)).render([{"x": nested}], {}, answer=True)
    while isinstance(nested, list):  # taken apart here: freeing it at once would recurse
        nested = nested[0]


@pytest.mark.parametrize("package", ["jinja2", "tokenizers"])
def test_a_missing_package_is_named(folder: Path, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(GymdError, match=f"{package} is missing: pip install jinja2 tokenizers"):
        load_template(str(folder))


def test_tokenizers_that_cannot_be_used(folder: Path) -> None:
    with pytest.raises(GymdError, match="no file"):
        load_template(str(folder / "nowhere"))
    settings = folder / "tokenizer_config.json"
    settings.write_text("{}")
    with pytest.raises(GymdError, match=r"chat_template\.jinja"):
        load_template(str(folder))
    settings.write_text("{")
    with pytest.raises(GymdError, match="is no JSON"):
        load_template(str(folder))
    settings.unlink()
    (folder / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(GymdError, match=r"chat_template\.jinja cannot be read"):
        load_template(str(folder))
    (folder / "chat_template.jinja").write_text("{% if %}")
    with pytest.raises(GymdError, match="is broken"):
        load_template(str(folder))
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(GymdError, match="is no tokenizer"):
        load_template(str(folder / "tokenizer.json"))


def test_templates_run_in_a_sandbox(folder: Path) -> None:
    source = "{% generation %}{{ ''.__class__.__mro__ }}{% endgeneration %}"
    (folder / "chat_template.jinja").write_text(source)
    with pytest.raises(ValueError, match="unsafe"):
        load_template(str(folder)).render([], {}, answer=True)


def test_the_memory_is_bounded() -> None:
    memory = TokenMemory(10_000)
    memory.keep("a", b"1", b"x" * 4000)
    first = memory.find("a", b"1")
    memory.keep("a", b"2", b"x" * 4000 + b"y" * 400, first)
    memory.keep("b", b"1", b"z" * 4)
    found = memory.find("a", b"2")
    assert found is not None
    assert found.ids() == b"x" * 4000 + b"y" * 400
    assert (found.added, memory.size) == (b"y" * 400, 4404 + 3 * 400)
    memory.keep("c", b"1", b"w" * 6000)  # b was used least recently
    assert memory.find("b", b"1") is None
    assert memory.find("a", b"1") is None  # and that was not enough
    assert memory.size == 6400
    memory.keep("d", b"1", b"w" * 60_000)
    assert memory.find("d", b"1") is not None


def test_a_turn_that_is_said_again_takes_its_place() -> None:
    memory = TokenMemory(10_000)
    memory.keep("a", b"1", b"old!")
    memory.keep("a", b"2", b"old!more", memory.find("a", b"1"))
    memory.keep("a", b"1", b"newnew__")
    one, two = memory.find("a", b"1"), memory.find("a", b"2")
    assert one is not None
    assert two is not None
    assert (one.ids(), two.ids()) == (b"newnew__", b"old!more")


def test_ids_of_a_rollout_that_was_forgotten_during_a_call_count_again() -> None:
    memory = TokenMemory(10_000)
    memory.keep("a", b"1", b"x" * 6000)
    during = memory.find("a", b"1")
    memory.keep("b", b"1", b"z" * 6000)
    assert memory.find("a", b"1") is None
    memory.keep("a", b"2", b"x" * 6000 + b"y" * 4, during)
    found = memory.find("a", b"2")
    assert found is not None
    assert found.ids() == b"x" * 6000 + b"y" * 4
    assert memory.size == 6004 + 400  # b had to go
    assert memory.find("b", b"1") is None


def test_json_as_the_template_asks_for_it(folder: Path) -> None:
    source = "{{ x | tojson }} {{ x | tojson(separators=(',', ':'), sort_keys=true) }} {{ x | tojson(true) }}"
    (folder / "chat_template.jinja").write_text(source)
    text = load_template(str(folder)).render([], {"x": {"b": "<ä>", "a": 1}}, answer=True)
    assert text == r'{"b": "<ä>", "a": 1} {"a":1,"b":"<ä>"} {"b": "<\u00e4>", "a": 1}'


@pytest.mark.parametrize(
    ("text", "opened", "wanted"),
    [
        ("plain", False, (None, "plain", [])),
        ("<think>a</think>\n\nb", False, ("a", "b", [])),
        ("a</think>b", True, ("a", "b", [])),
        ("a</think>b", False, ("a", "b", [])),
        ("cut off", True, ("cut off", None, [])),
        ("<think>cut off", False, ("cut off", None, [])),
        ('x<tool_call>{"name": "f"}</tool_call>', False, (None, "x", [("f", "{}")])),
        ('<tool_call>{"name": "f", "arguments": "{bad"}', False, (None, None, [("f", "{bad")])),
        ("<tool_call>{bad}</tool_call>", False, (None, "<tool_call>{bad}</tool_call>", [])),
        ('<tool_call>{"name": 3}</tool_call>', False, (None, '<tool_call>{"name": 3}</tool_call>', [])),
        ("<tool_call>[1]</tool_call>", False, (None, "<tool_call>[1]</tool_call>", [])),
        ("<tool_call>" + "[" * 200_000, False, (None, "<tool_call>" + "[" * 200_000, [])),
        (small.DEEP, False, (None, small.DEEP, [])),
        (small.HALF_NAME, False, (None, small.HALF_NAME, [])),
        (small.HALF_TEXT, False, (None, small.HALF_TEXT, [])),
        (small.HALF, False, (None, None, [("f", r'{"x":"\ud800"}')])),
    ],
)
def test_answers_are_taken_apart(text: str, opened: bool, wanted: Any) -> None:
    message = split_answer(text, "hermes", reasoning=True, opened=opened)
    calls = [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", ())]
    assert (message.get("reasoning_content"), message["content"], calls) == wanted


def test_ids_of_a_trace() -> None:
    response = Response()
    trace = response.output.add().token_trace
    trace.prompt_token_ids.extend([1, 2])
    trace.generation_token_ids.extend([3])
    assert unpack_ids(trace_ids(trace)) == [1, 2, 3]
