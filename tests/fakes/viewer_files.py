"""Rollout files that look like real ones, for the viewer: several environments, tools, judges, failures.

python -m tests.fakes.viewer_files --tasks 60 --repeats 4 rollouts.jsonl    # and rollouts_failures.jsonl
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

__all__ = ["HOSTILE", "PIXEL", "rollouts", "tasks", "write_files"]

HOSTILE = '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'
"""What a policy may say; on the page it must stay text."""

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAADAAAAAYCAIAAAAzn+mLAAAALElEQVR42u3OAQkAAAgD"
    "sMcxnekMaA3BwQIs1XNKhISEhISEhISEhISEfoUWQvvNTE4hLy4AAAAASUVORK5CYII="
)
"""A picture of 48 by 24 pixels."""

START = datetime(2026, 5, 4, 8, 0, tzinfo=UTC)
TOPICS = [
    "enzymes",
    "plate tectonics",
    "prime gaps",
    "monsoon winds",
    "bridge loads",
    "sonnets",
    "soil acidity",
]
PEOPLE = ["Amara", "Jonas", "Li Wei", "Sofia", "Tomás", "Yuki", "Zanele"]
THOUGHTS = [
    "Let me restate what is asked before deciding.",
    "The first option contradicts the definition, so it can be ruled out.",
    "I should check the calendar first, because the meeting may have moved.",
    "A quick estimate: the order of magnitude is 10^3, so the second value is implausible.",
    "Wait, the tool returned an empty list. Perhaps the name is spelt differently.",
]

Row = dict[str, Any]


def tasks(count: int, seed: int = 7) -> Iterator[Row]:
    """Dataset rows, the environments in turn."""
    for number in range(count):
        dice = random.Random(f"{seed}/{number}")
        yield TASKS[number % len(TASKS)](number, dice)


def rollouts(task_count: int, repeats: int, seed: int = 7) -> Iterator[Row]:
    """Output lines as `gymctl rollouts collect` writes them, failures included (they hold `failure`)."""
    for index, task in enumerate(tasks(task_count, seed)):
        for repeat in range(repeats):
            dice = random.Random(f"{seed}/{index}/{repeat}")
            yield _rollout(task, index, repeat, dice)


def write_files(path: Path, task_count: int, repeats: int, seed: int = 7) -> tuple[int, int]:
    """Writes rollouts and, beside them, failures; returns how many of each."""
    failures = path.with_name(path.name.removesuffix(".jsonl") + "_failures.jsonl")
    counts = [0, 0]
    with path.open("w") as good, failures.open("w") as bad:
        for row in rollouts(task_count, repeats, seed):
            failed = "failure" in row
            counts[failed] += 1
            (bad if failed else good).write(json.dumps(row, ensure_ascii=False) + "\n")
    return counts[0], counts[1]


# ---- tasks


def _function(name: str, about: str, /, **properties: str) -> Row:
    fields = {key: {"type": kind} for key, kind in properties.items()}
    schema = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    return {"type": "function", "name": name, "description": about, "parameters": schema, "strict": True}


OFFICE_TOOLS = [
    _function("directory_find_address", "Finds the e-mail addresses of people by name.", name="string"),
    _function("calendar_search_events", "Searches events by words and day.", query="string", day="string"),
    _function(
        "calendar_create_event",
        "Creates an event.",
        title="string",
        start="string",
        duration_minutes="integer",
    ),
    _function("email_send", "Sends a message.", recipient="string", subject="string", body="string"),
]


def _agent(name: str) -> Row:
    return {"type": "responses_api_agents", "name": f"{name}_simple_agent"}


def _office(number: int, dice: random.Random) -> Row:
    person, topic = dice.choice(PEOPLE), dice.choice(TOPICS)
    ask = f"Schedule a 30 minute review of {topic} with {person} on Friday morning and tell them by e-mail."
    system = (
        "Today is Wednesday, 2026-05-06. Meetings begin between 9:00 and 17:30. Use the tools; do not guess."
    )
    messages = [{"role": "system", "content": system}, {"role": "user", "content": ask}]
    return {
        "id": number,
        "responses_create_params": {"input": messages, "tools": OFFICE_TOOLS, "parallel_tool_calls": False},
        "category": "multi_domain",
        "agent_ref": _agent("workplace_assistant"),
    }


def _choice(number: int, dice: random.Random) -> Row:
    topic = dice.choice(TOPICS)
    options = [
        f"It is driven by {word}." for word in dice.sample(["heat", "pressure", "salt", "light", "chance"], 4)
    ]
    lines = [f"{letter}: {text}" for letter, text in zip("ABCD", options, strict=True)]
    ask = (
        f"Question {number}. What is the main cause behind {topic}? Answer with the letter in \\boxed{{}}.\n"
    )
    return {
        "responses_create_params": {"input": [{"role": "user", "content": ask + "\n".join(lines)}]},
        "options": [{letter: text} for letter, text in zip("ABCD", options, strict=True)],
        "expected_answer": dice.choice("ABCD"),
        "agent_ref": _agent("mcqa"),
    }


def _sum(number: int, dice: random.Random) -> Row:
    a, b = dice.randint(12, 99), dice.randint(2, 19)
    ask = f"Simplify \\(\\frac{{{a * b}}}{{{b}}}\\) and give the result in \\boxed{{}}. (Problem {number})"
    return {
        "responses_create_params": {
            "input": [{"role": "user", "content": ask}],
            "temperature": 0.7,
            "max_output_tokens": 2048,
        },
        "question": ask,
        "expected_answer": str(a),
        "agent_ref": _agent("math_with_judge"),
    }


def _code(number: int, dice: random.Random) -> Row:
    ask = (
        f"Problem {number}. Read n and then n integers. Print the longest run of equal neighbours.\n\n"
        f"Input: at most {dice.randint(3, 9)}0,000 integers.\nAnswer with one ```python block."
    )
    return {
        "responses_create_params": {
            "input": [{"role": "user", "content": ask}],
            "reasoning": {"effort": "low"},
        },
        "verifier_metadata": {"unit_tests": {"inputs": ["3\n1 1 2\n", "1\n5\n"], "outputs": ["2\n", "1\n"]}},
        "agent_ref": _agent("code_gen"),
    }


def _following(number: int, dice: random.Random) -> Row:
    topic = dice.choice(TOPICS)
    ask = f"Explain {topic} in three paragraphs, without commas, and end with the word done. ({number})"
    content: Any = ask
    if number % 10 == 4:
        content = [{"type": "input_text", "text": ask}, {"type": "input_image", "image_url": PIXEL}]
    return {
        "id": number,
        "responses_create_params": {"input": [{"role": "user", "content": content}]},
        "instruction_id_list": [
            "length_constraints:number_paragraphs",
            "punctuation:no_comma",
            "last_word:done",
        ],
        "agent_ref": _agent("instruction_following"),
    }


TASKS: list[Callable[[int, random.Random], Row]] = [_office, _choice, _sum, _code, _following]


# ---- what the policy does


def _reasoning(number: int, dice: random.Random, count: int) -> Row:
    text = " ".join(dice.choices(THOUGHTS, k=count))
    return {"type": "reasoning", "id": f"rs_{number}", "summary": [{"type": "summary_text", "text": text}]}


def _message(number: int, text: str) -> Row:
    return {
        "type": "message",
        "role": "assistant",
        "id": f"msg_{number}",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def _call(number: int, name: str, arguments: Row, output: Any) -> list[Row]:
    call_id = f"call_{number}"
    call = {"type": "function_call", "call_id": call_id, "name": name, "arguments": json.dumps(arguments)}
    answer = {"type": "function_call_output", "call_id": call_id, "output": json.dumps(output)}
    return [{**call, "id": f"fc_{number}", "status": "completed"}, answer]


def _do_office(task: Row, good: bool, dice: random.Random) -> tuple[list[Row], Row]:
    person = dice.choice(PEOPLE)
    address = f"{person.split()[0].lower()}@example.org"
    found = [address] if good else []
    events = [{"id": "00000213", "title": "Stand-up", "start": "2026-05-08 09:00", "duration_minutes": 15}]
    items = [
        _reasoning(1, dice, 2),
        *_call(1, "directory_find_address", {"name": person}, found),
        *_call(2, "calendar_search_events", {"query": "", "day": "2026-05-08"}, events),
    ]
    if not good:
        items += _call(
            3,
            "calendar_search_events",
            {"day": 8},
            {"error": "Invalid tool call arguments: query: Field required"},
        )
    created = {"title": "Review", "start": "2026-05-08 09:30:00", "duration_minutes": 30}
    items += [_reasoning(2, dice, 1), *_call(4, "calendar_create_event", created, {"id": "00000300"})]
    if good:
        mail = {
            "recipient": address,
            "subject": "Review on Friday",
            "body": "See you at 9:30.\n\nBest,\nYour assistant",
        }
        items += _call(5, "email_send", mail, {"status": "sent"})
    items.append(
        _message(9, f"The review with {person} is on Friday at 9:30" + (" and they know." if good else "."))
    )
    return items, {"reward": float(good), "changed_tables": ["calendar", "email"] if good else ["calendar"]}


def _do_choice(task: Row, good: bool, dice: random.Random) -> tuple[list[Row], Row]:
    gold = task["expected_answer"]
    letter = gold if good else dice.choice([one for one in "ABCD" if one != gold])
    text = f"The effect is well known: the gradient does the work.\n\nThe answer is \\boxed{{{letter}}}."
    extras = {"reward": float(good), "expected_answer": gold, "extracted_answer": letter}
    return [_reasoning(1, dice, dice.randint(2, 6)), _message(2, text)], extras


def _do_sum(task: Row, good: bool, dice: random.Random) -> tuple[list[Row], Row]:
    gold = task["expected_answer"]
    answer = gold if good else str(int(gold) + dice.randint(1, 9))
    prompt = f"QUESTION\n{task['question']}\n\nFIRST\n{gold}\n\nSECOND\n{answer}\n\nAre they equal?"
    verdict: Row = {
        "prompt_file": "prompts/equivalence.txt",
        "answer": answer,
        "attempts": 1,
        "failures": [],
        "responses_create_params": {
            "input": [
                {"role": "system", "content": "You compare two answers. Say [[A=B]] or [[A!=B]]."},
                {"role": "user", "content": prompt},
            ]
        },
        "response": {"output": [_message(1, f"Both are numbers. {'[[A=B]]' if good else '[[A!=B]]'}")]},
        "verdict_label": "[[A=B]]" if good else "[[A!=B]]",
    }
    extras = {
        "reward": float(good),
        "extracted_answer": answer,
        "library_reward": float(good),
        "judge_evaluations": [verdict, verdict] if good else [verdict],
    }
    return [_reasoning(1, dice, 4), _message(2, f"Dividing gives \\boxed{{{answer}}}.")], extras


def _do_code(task: Row, good: bool, dice: random.Random) -> tuple[list[Row], Row]:
    passed = 8 if good else dice.randint(0, 7)
    code = (
        "n = int(input())\na = list(map(int, input().split()))\nbest = run = 1\nfor x, y in zip(a, a[1:]):\n"
    )
    code += "    run = run + 1 if x == y else 1\n    best = max(best, run)\nprint(best)"
    text = f"One pass is enough.\n\n```python\n{code}\n```"
    extras = {
        "reward": float(passed == 8),
        "reward_components": {"tests_passed": passed / 8, "compiles": 1.0},
        "extracted_code": code,
        "tests": {"passed": passed, "total": 8},
    }
    return [_reasoning(1, dice, 3), _message(2, text)], extras


def _do_following(task: Row, good: bool, dice: random.Random) -> tuple[list[Row], Row]:
    parts = {name: 1.0 if good else float(dice.random() < 0.5) for name in task["instruction_id_list"]}
    text = "First the ground.\n\nThen the water.\n\nAt last the air and we are done"
    if dice.random() < 0.2:
        text = f"{HOSTILE}\n\n{text}"
    extras = {"reward": round(sum(parts.values()) / len(parts), 4), "reward_components": parts}
    return [_message(1, text)], extras


DO: dict[str, Callable[[Row, bool, random.Random], tuple[list[Row], Row]]] = {
    "workplace_assistant_simple_agent": _do_office,
    "mcqa_simple_agent": _do_choice,
    "math_with_judge_simple_agent": _do_sum,
    "code_gen_simple_agent": _do_code,
    "instruction_following_simple_agent": _do_following,
}


# ---- rollouts


def _rollout(task: Row, index: int, repeat: int, dice: random.Random) -> Row:
    agent = task["agent_ref"]["name"]
    # Every task has a difficulty of its own, so that pass@k says something.
    good = dice.random() < random.Random(f"difficulty/{index}").choice([0.1, 0.4, 0.7, 0.95])
    items, verdict = DO[agent](task, good, dice)
    row = {**task, "_ng_task_index": index, "_ng_rollout_index": repeat}
    facts = _facts(items, index, repeat, agent, dice)
    if dice.random() < 0.04:
        return _failed(row, facts, items, dice)
    if dice.random() < 0.05:
        facts |= {"outcome": "truncated_tokens", "termination_reason": "max_output_tokens"}
        verdict |= {"reward": 0.0}
    if index % 6 == 1:
        _add_tokens(items, dice)
    row["response"] = _response(items, dice)
    row |= verdict
    facts["reward_extras"] = [key for key in verdict if key not in ("reward", "reward_components")]
    return row | {"rollout": facts}


def _response(items: list[Row], dice: random.Random) -> Row:
    read, wrote = dice.randint(150, 6000), dice.randint(20, 1800)
    usage = {
        "input_tokens": read,
        "output_tokens": wrote,
        "total_tokens": read + wrote,
        "input_tokens_details": {"cached_tokens": read // 3},
        "output_tokens_details": {"reasoning_tokens": wrote // 2},
    }
    rest = {"status": "completed", "model": "policy-small", "usage": usage, "object": "response"}
    return {"id": f"resp_{dice.getrandbits(40):010x}", "created_at": 1777881600.0, "output": items, **rest}


def _facts(items: list[Row], index: int, repeat: int, agent: str, dice: random.Random) -> Row:
    calls = sum(item["type"] == "function_call" for item in items)
    errors = sum(item["type"] == "function_call_output" and '"error"' in item["output"] for item in items)
    model, tool, verify = (
        dice.lognormvariate(1.2, 0.6),
        calls * dice.uniform(0.01, 0.2),
        dice.uniform(0.005, 0.9),
    )
    accepted = START + timedelta(seconds=index * 1.7 + repeat * 0.2)
    started = accepted + timedelta(seconds=dice.uniform(0, 2))
    seconds = model + tool + verify + 0.02
    return {
        "task_index": index,
        "index": repeat,
        "attempt": 1 + (dice.random() < 0.05),
        "agent": agent,
        "outcome": "completed",
        "termination_reason": "final_message",
        "model_calls": calls + 1,
        "tool_calls": calls,
        "tool_errors": errors,
        "timing": {
            "accept_time": accepted.isoformat(),
            "start_time": started.isoformat(),
            "end_time": (started + timedelta(seconds=seconds)).isoformat(),
            "seconds": seconds,
            "model_seconds": model,
            "tool_seconds": tool,
            "seed_seconds": 0.012,
            "verify_seconds": verify,
        },
    }


FAILURES: list[Row] = [
    {
        "outcome": "model_failed",
        "class": "infra",
        "stage": "model",
        "retriable": True,
        "code": "UNAVAILABLE",
        "reason": "UPSTREAM_UNAVAILABLE",
        "message": "the model endpoint answered 503 four times: no capacity",
        "upstream_status": 503,
        "upstream_body": '{"error": {"message": "no capacity", "type": "overloaded"}}',
    },
    {
        "outcome": "timed_out",
        "class": "infra",
        "stage": "tool",
        "retriable": True,
        "code": "DEADLINE_EXCEEDED",
        "reason": "DEADLINE_EXCEEDED",
        "message": "calendar_search_events did not answer within 30 s",
    },
    {
        "outcome": "verify_failed",
        "class": "infra",
        "stage": "verify",
        "retriable": False,
        "code": "INTERNAL",
        "reason": "SERVER_CODE_FAILED",
        "message": "the verifier raised KeyError: 'expected_answer'",
    },
]


def _failed(row: Row, facts: Row, items: list[Row], dice: random.Random) -> Row:
    failure = dict(dice.choice(FAILURES))
    facts |= {"outcome": failure.pop("outcome"), "termination_reason": "error"}
    if failure["stage"] != "model":
        row["response"] = _response(items[:-1], dice)
    earlier = {
        "attempt": 1,
        "code": "UNAVAILABLE",
        "reason": "HOST_LOST",
        "message": "the host process ended",
    }
    attempts = {"attempts": [earlier]} if facts["attempt"] > 1 else {}
    return row | {
        "rollout": facts,
        "failure": {**failure, "metadata": {"server": facts["agent"]}, **attempts},
    }


def _add_tokens(items: list[Row], dice: random.Random) -> None:
    prompt = [dice.randint(5, 120_000) for _ in range(40)]
    sampled = [dice.randint(5, 120_000) for _ in range(25)]
    logprobs = [round(-dice.expovariate(3), 5) for _ in sampled]
    keys = {"prompt_token_ids": prompt, "generation_token_ids": sampled, "generation_log_probs": logprobs}
    next(item for item in reversed(items) if item["type"] != "function_call_output").update(keys)


def main() -> None:
    """Writes the files that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=4)
    options = parser.parse_args()
    write_files(options.output, options.tasks, options.repeats)


if __name__ == "__main__":
    main()
