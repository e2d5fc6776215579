"""A tokenizer and chat template small enough to follow, and an engine that answers with planned ids."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any

from gymd.prompts import Template, load_template, split_answer, template_messages
from tests.fakes.openai_backend import Answer, Recorded, chat_message

__all__ = [
    "CHATML",
    "DEEP",
    "DROPS_REASONING",
    "HALF",
    "HALF_NAME",
    "HALF_TEXT",
    "ODD_CALLS",
    "Engine",
    "write_tokenizer",
]

SPECIAL = ("<|im_start|>", "<|im_end|>")

_REASONING = "<think>\n{{ m.reasoning_content }}\n</think>\n\n"
_CHATML = """{%- if tools %}<|im_start|>system
{{ tools | tojson }}<|im_end|>
{% endif %}
{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content and (WHEN) %}REASONING{% endif %}{{ m.content }}
{%- for c in m.tool_calls or [] %}
<tool_call>
{{ {"name": c.function.name, "arguments": c.function.arguments} | tojson }}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}""".replace("REASONING", _REASONING)
CHATML = _CHATML.replace("WHEN", "true")
# As templates do that keep the reasoning only while tools answer.
DROPS_REASONING = _CHATML.replace("WHEN", 'messages[-1].role != "user"')

# Nested as deep as it can be read and not written, and halves of a surrogate pair.
DEEP = '<tool_call>{"name": "f", "arguments": ' + '{"x":' * 1000 + "1" + "}" * 1000 + "}</tool_call>"
HALF_NAME = r'<tool_call>{"name": "\ud800"}</tool_call>'
HALF_TEXT = r'<tool_call>{"name": "f", "arguments": "\ud800"}</tool_call>'
HALF = r'<tool_call>{"name": "f", "arguments": {"x": "\ud800"}}</tool_call>'
ODD_CALLS = (HALF, HALF_NAME, HALF_TEXT, DEEP)


def write_tokenizer(folder: Path, template: str = CHATML) -> Path:
    """One token a byte, except that `ab` and `the` are tokens of their own."""
    from tokenizers import AddedToken, Tokenizer
    from tokenizers.decoders import ByteLevel as Decoder
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel

    words = {word: number for number, word in enumerate([*sorted(ByteLevel.alphabet()), "ab", "th", "the"])}
    tokenizer = Tokenizer(BPE(words, [("a", "b"), ("t", "h"), ("th", "e")]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = Decoder()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"eos_token": "<|im_end|>", "bos_token": None, "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


class Engine:
    """Answers /completions and /chat/completions with planned texts, tokenized letter by letter.

    Attributes:
        patched: whether it takes required_prefix_token_ids.
        prompts: the ids of the prompts, in order.
    """

    def __init__(self, folder: Path, *texts: str, patched: bool = True) -> None:
        self.template: Template = load_template(str(folder))
        self.patched = patched
        self.prompts: list[list[int]] = []
        self.sampled: list[list[int]] = []
        self._texts = deque(texts)

    def spelled(self, text: str) -> list[int]:
        """The ids of a text as a model may sample it: no token of more than one letter."""
        special = {name: number for number, name in self.template.special.items()}
        ids: list[int] = []
        while text:
            name = next((name for name in special if text.startswith(name)), "")
            ids += [special[name]] if name else self.template.encode(text[0])
            text = text[len(name) or 1 :]
        return ids

    def __call__(self, request: Recorded) -> Answer:
        if request.path == "/tokenize":
            return Answer(json={"tokens": [1], "count": 1, "max_model_len": 4096})
        body: dict[str, Any] = request.json
        text = self._texts.popleft()
        ids = self.spelled(text)
        chat = "messages" in body
        self.prompts.append(self._chat_prompt(body) if chat else body["prompt"])
        self.sampled.append(ids)
        said = text.removesuffix("<|im_end|>")
        finish = "stop" if text.endswith("<|im_end|>") else "length"
        names, values = [f"token_id:{number}" for number in ids], [-0.5] * len(ids)
        if chat:
            entries = [{"token": n, "logprob": v} for n, v in zip(names, values, strict=True)]
            choice = {"token_ids": ids, "finish_reason": finish, "logprobs": {"content": entries}}
            message = split_answer(said, "hermes", reasoning=True, opened=False)
            parts = {key: value for key, value in message.items() if key not in ("role", "content")}
            top = {"prompt_token_ids": self.prompts[-1]}
            return Answer(json=chat_message(message["content"], **parts, choice=choice, top=top))
        choice = {
            "text": said,
            "finish_reason": finish,
            "token_ids": ids,
            "prompt_token_ids": self.prompts[-1],
            "logprobs": {"tokens": names, "token_logprobs": values},
        }
        return Answer(json={"id": "cmpl-1", "model": "m", "choices": [choice]})

    def _chat_prompt(self, body: dict[str, Any]) -> list[int]:
        """The whole conversation, or what follows the last answer behind the ids to begin with."""
        messages, variables = template_messages(body["messages"]), {"tools": body.get("tools")}
        whole = self.template.render(messages, variables, answer=True)
        prefix = body.get("required_prefix_token_ids")
        if prefix is None or not self.patched:
            return self.template.encode(whole)
        last = max(number for number, message in enumerate(messages) if message["role"] == "assistant")
        before = self.template.render(messages[: last + 1], variables, answer=False).rstrip()
        return [*prefix, *self.template.encode(whole[len(before) :])]
