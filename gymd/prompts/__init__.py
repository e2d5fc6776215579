"""Prompts as token ids: a model's own chat template and tokenizer, run here, and its answers taken apart.

Prompts of later turns begin with the very ids of earlier ones, as they were sampled. For model servers that
talk to engines in ids; needs the packages jinja2 and tokenizers, which only `load_template` imports.
"""

from gymd.prompts.continuation import Prompt, template_messages
from gymd.prompts.conversation import TOKEN_KEYS, Conversation, Known
from gymd.prompts.memory import TokenMemory, Turn
from gymd.prompts.parsers import TOOL_CALL_PARSERS, split_answer
from gymd.prompts.prompter import Prompter, work_on
from gymd.prompts.settings import PolicySettings
from gymd.prompts.template import Template, load_template

__all__ = [
    "TOKEN_KEYS",
    "TOOL_CALL_PARSERS",
    "Conversation",
    "Known",
    "PolicySettings",
    "Prompt",
    "Prompter",
    "Template",
    "TokenMemory",
    "Turn",
    "load_template",
    "split_answer",
    "template_messages",
    "work_on",
]
