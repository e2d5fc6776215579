"""A tiny random model with a tokenizer of its own, in a folder: to train for real, without a hub.

Needs torch and transformers, which are no dependency of the tests: import it behind `pytest.importorskip`.
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

__all__ = ["save_tiny_model"]

SPECIAL = ("<pad>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
# One letter each, of a byte-level vocabulary; what it lacks is left out of a text.
LETTERS = "adot0123456789" + "\u0120"  # the last one is a space
# A call is one token, so that a policy that knows nothing makes some.
CALL = '<tool_call>{{"name": "increment_counter", "arguments": {{"count": {count}}}}}</tool_call>'
TEMPLATE = """{%- for message in messages -%}
<|{{ message.role }}|>{{ message.content }}
{%- for call in message.tool_calls or [] -%}
<tool_call>{{ {"name": call.function.name, "arguments": call.function.arguments} | tojson }}</tool_call>
{%- endfor -%}
<|end|>
{%- endfor -%}
{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"""


def save_tiny_model(folder: Path, *, seed: int = 0) -> None:
    """Writes model and tokenizer, as `from_pretrained` reads them."""
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *LETTERS))}
    made = Tokenizer(models.BPE(vocabulary, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(word, special=True) for word in SPECIAL])
    made.add_tokens([AddedToken(CALL.format(count=count), normalized=False) for count in range(1, 7)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|end|>", pad_token="<pad>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    model = Qwen2ForCausalLM(config)
    _prefer(model, [tokenizer.eos_token_id, *range(len(SPECIAL) + len(LETTERS), len(tokenizer))])
    model.save_pretrained(folder)


def _prefer(model: Qwen2ForCausalLM, tokens: list[int]) -> None:
    """Has the policy say little but these, the first one as often as not: noise would be told from calls."""
    with torch.no_grad():
        # One place of the hidden state is as good as constant, so that its weights in the head act as a bias.
        model.model.embed_tokens.weight[:, 0] = 1.0
        head = model.lm_head.weight
        head[:, 0] = -1.0
        head[tokens, 0] = 0.0
        head[tokens[0], 0] = 0.35
