"""`gymctl rollouts export`: rollouts become rows for supervised and preference training."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from gymctl.export.messages import Unusable, converse
from tests.fakes.gymctl import Outcome, gymctl, start_gymctl

TOOL = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {}},
    "strict": True,
}


def user(text: Any = "Question?") -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}


def call(call_id: str = "c1", arguments: str = '{"at": 1}') -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "look", "arguments": arguments}


def result(call_id: str = "c1", text: str = "seen") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def thought(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": text}]}


def line(
    *output: dict[str, Any],
    given: Any = "Question?",
    task: int = 0,
    reward: float | None = 1.0,
    outcome: str = "completed",
    **params: Any,
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "responses_create_params": {"input": given, **params},
        "agent_ref": {"name": "a"},
        "_ng_task_index": task,
        "_ng_rollout_index": 0,
        "response": {"id": "resp", "object": "response", "output": list(output)},
        "rollout": {"agent": "a", "outcome": outcome},
    }
    return made if reward is None else made | {"reward": reward}


def require_chat_rules(messages: list[dict[str, Any]]) -> None:
    """What every chat template relies on."""
    waiting: set[str] = set()
    for message in messages:
        assert message["role"] in ("system", "user", "assistant", "tool")
        assert isinstance(message["content"], str)
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
            assert message["name"]
            continue
        assert not waiting
        assert message["role"] == "assistant" or "tool_calls" not in message
        for one in message.get("tool_calls", ()):
            assert one["type"] == "function"
            waiting.add(one["id"])


ASSISTANT_CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": {"at": 1}}},
    ],
}
TOOL_RESULT = {"role": "tool", "content": "seen", "tool_call_id": "c1", "name": "look"}

CONVERSATIONS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "a text": (line(said("Yes.")), [user(), {"role": "assistant", "content": "Yes."}]),
    "instructions and developer words are one system message": (
        line(said("Yes."), given=[{"role": "developer", "content": "B"}, user()], instructions="A"),
        [{"role": "system", "content": "A\n\nB"}, user(), {"role": "assistant", "content": "Yes."}],
    ),
    "parts of text become one text": (
        line(said("Yes."), given=[user([{"type": "input_text", "text": t} for t in "ab"])]),
        [user("ab"), {"role": "assistant", "content": "Yes."}],
    ),
    "a call, its result, an answer": (
        line(call(), result(), said("Done."), tools=[TOOL]),
        [user(), ASSISTANT_CALL, TOOL_RESULT, {"role": "assistant", "content": "Done."}],
    ),
    "words before a call": (
        line(said("Let me look."), call(), result(), said("Done.")),
        [
            user(),
            ASSISTANT_CALL | {"content": "Let me look."},
            TOOL_RESULT,
            {"role": "assistant", "content": "Done."},
        ],
    ),
    "a last call without result": (line(call()), [user(), ASSISTANT_CALL]),
    "reasoning is left out": (
        line(thought("Hm."), said("Yes.")),
        [user(), {"role": "assistant", "content": "Yes."}],
    ),
    "think tags are reasoning": (
        line(said("<think>\nHm.\n</think>\n\nYes.")),
        [user(), {"role": "assistant", "content": "Yes."}],
    ),
    "a call without arguments": (
        line(call(arguments="")),
        [
            user(),
            ASSISTANT_CALL
            | {
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": {}}}
                ]
            },
        ],
    ),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation(name: str) -> None:
    given, messages = CONVERSATIONS[name]
    found = converse(given)
    assert found.prompt + found.completion == messages
    require_chat_rules(messages)
    assert found.completion[0]["role"] == "assistant"


def test_reasoning_is_kept_if_asked_for() -> None:
    given = line(thought("One."), call(), result(), thought("Two."), thought("Three."), said("Done."))
    found = converse(given, reasoning=True).completion
    assert found[0] == ASSISTANT_CALL | {"reasoning_content": "One."}
    assert found[2] == {"role": "assistant", "content": "Done.", "reasoning_content": "Two.\n\nThree."}


def test_tools_are_in_chat_form() -> None:
    [tool] = converse(line(said("Yes."), tools=[TOOL])).tools
    assert tool == {
        "type": "function",
        "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
    }
    [text] = converse(line(said("Yes."), tools=[TOOL]), as_text=True).tools
    assert json.loads(text) == tool


def test_arguments_stay_the_words_of_the_model_as_text() -> None:
    [message] = converse(line(call(arguments='{"at": 1')), as_text=True).completion
    assert message["tool_calls"][0]["function"]["arguments"] == '{"at": 1'


UNUSABLE = {
    "nothing": (line(), "said nothing"),
    "no response": (line() | {"response": None}, "no response"),
    "no params": (line() | {"responses_create_params": []}, "no responses_create_params"),
    "broken arguments": (line(call(arguments='{"at": 1')), "no JSON object"),
    "arguments that are a list": (line(call(arguments="[1]")), "no JSON object"),
    "a result of no call": (line(said("Hm."), result("c9")), "belongs to no call"),
    "a result twice": (line(call(), result(), result()), "belongs to no call"),
    "a forgotten call": (line(call("c1"), call("c2"), result("c2"), said("Done.")), "has no result"),
    "two calls with one id": (line(call(), call()), "same id"),
    "a picture": (
        line(said("A cat."), given=[user([{"type": "input_image", "image_url": "http://x/y.png"}])]),
        "more than text",
    ),
    "a kind that chat does not know": (
        line({"type": "web_search_call", "id": "w", "status": "completed"}, said("Yes.")),
        "no chat form",
    ),
    "a prompt that ends with the policy": (
        line(said("Yes."), given=[user(), {"role": "assistant", "content": "Well, "}]),
        "ends with words of the policy",
    ),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_what_chat_cannot_say_is_refused(name: str) -> None:
    given, why = UNUSABLE[name]
    with pytest.raises(Unusable, match=why):
        converse(given)


def write(folder: Path, *lines: dict[str, Any], name: str = "r.jsonl") -> None:
    (folder / name).write_text("".join(json.dumps(one) + "\n" for one in lines))


def read(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in (folder / "out.jsonl").read_text().splitlines()]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def export(folder: Path, *arguments: object, files: tuple[str, ...] = ("r.jsonl",)) -> Outcome:
    return await gymctl(
        "rollouts", "export", *files, "--output", "out.jsonl", *arguments, "-o", "json", cwd=folder
    )


class TestSupervised:
    LINES = (
        line(said("best"), reward=1.0),
        line(said("worse"), reward=0.0),
        line(said("unscored"), reward=None),
        line(said("cut"), reward=1.0, outcome="truncated_tokens"),
        line(call(arguments="{"), reward=1.0),
    )

    async def test_rows_and_counts(self, tmp_path: Path) -> None:
        write(tmp_path, *self.LINES)
        done = await export(tmp_path, "--to", "sft")
        assert done.code == 0, done.err
        assert [row["messages"][-1]["content"] for row in read(tmp_path)] == ["best", "worse", "unscored"]
        assert done.json == {
            "output": "out.jsonl",
            "form": "sft",
            "rollouts": 5,
            "rows": 3,
            "left_out": {
                "the outcome truncated_tokens": 1,
                "the arguments of a call are no JSON object (--tool-json text keeps them)": 1,
            },
        }

    @pytest.mark.parametrize(
        ("arguments", "kept"),
        [
            (("--min-reward", 0.5), ["best"]),
            (("--outcome", "truncated_tokens"), ["cut"]),
            (("--outcome", "any", "--min-reward", 1), ["best", "cut"]),
        ],
    )
    async def test_filters(self, tmp_path: Path, arguments: tuple[object, ...], kept: list[str]) -> None:
        write(tmp_path, *self.LINES)
        done = await export(tmp_path, "--to", "sft", *arguments)
        assert done.code == 0, done.err
        assert [row["messages"][-1]["content"] for row in read(tmp_path)] == kept

    async def test_what_nobody_should_learn_from_is_left_out(self, tmp_path: Path) -> None:
        marked = line(said("marked"))
        marked["rollout"]["use_for_loss"] = False
        write(tmp_path, line(said("best")), marked)
        done = await export(tmp_path, "--to", "sft")
        assert [row["messages"][-1]["content"] for row in read(tmp_path)] == ["best"]
        assert done.json["left_out"] == {"marked as nothing to learn from (use_for_loss)": 1}

    async def test_nothing_left_says_why_and_writes_nothing(self, tmp_path: Path) -> None:
        write(tmp_path, *self.LINES[1:3])
        (tmp_path / "out.jsonl").write_text("old")
        done = await export(tmp_path, "--to", "sft", "--min-reward", 2, "--overwrite")
        assert done.code == 1
        assert "none of the 2 rollouts can be used" in done.err
        assert "1 rollouts: no reward\n" in done.err
        assert "1 rollouts: a reward below --min-reward\n" in done.err
        assert (tmp_path / "out.jsonl").read_text() == "old"
        assert names(tmp_path) == ["out.jsonl", "r.jsonl"]

    async def test_lone_surrogates_survive(self, tmp_path: Path) -> None:
        write(tmp_path, line(said("ü"), given="caf\u00e9"))
        text = (tmp_path / "r.jsonl").read_text()
        (tmp_path / "r.jsonl").write_text(text.replace("\\u00fc", "\\ud83d\\ude00"))
        done = await export(tmp_path, "--to", "sft")
        assert done.code == 0, done.err
        assert read(tmp_path)[0]["messages"][-1]["content"] == "\U0001f600"


def group(*rewards: float | None, task: int = 0, given: str = "Question?") -> list[dict[str, Any]]:
    return [line(said(f"{task}/{i}"), task=task, reward=r, given=given) for i, r in enumerate(rewards)]


class TestPreferences:
    @pytest.mark.parametrize(
        ("rewards", "arguments", "pairs"),
        [
            ((0.0, 1.0), (), [("0/1", "0/0")]),
            ((0.5, 1.0, 0.0, 1.0, 0.0), (), [("0/1", "0/2")]),
            ((0.0, None, 0.3), (), [("0/2", "0/0")]),
            ((0.0, 0.5, 1.0), ("--pairs", "all"), [("0/2", "0/1"), ("0/2", "0/0"), ("0/1", "0/0")]),
            ((0.0, 0.5, 1.0), ("--pairs", "all", "--min-gap", 1), [("0/2", "0/0")]),
            ((0.0, 0.5, 0.5), ("--pairs", "all"), [("0/1", "0/0"), ("0/2", "0/0")]),
            ((0.0, 0.5, 1.0), ("--pairs", "all", "--min-reward", 0.9), [("0/2", "0/1"), ("0/2", "0/0")]),
        ],
    )
    async def test_pairs(
        self,
        tmp_path: Path,
        rewards: tuple[float | None, ...],
        arguments: tuple[object, ...],
        pairs: list[tuple[str, str]],
    ) -> None:
        write(tmp_path, *group(*rewards))
        done = await export(tmp_path, "--to", "dpo", *arguments)
        assert done.code == 0, done.err
        rows = read(tmp_path)
        assert [(row["chosen"][0]["content"], row["rejected"][0]["content"]) for row in rows] == pairs
        assert all(row["chosen_reward"] > row["rejected_reward"] for row in rows)
        assert all(row["prompt"] == [user()] for row in rows)
        assert done.json["rows"] == len(pairs)
        assert done.json["tasks"] == 1

    async def test_tasks_meet_over_files_and_do_not_mix(self, tmp_path: Path) -> None:
        """Rollouts of a task lie anywhere; another file's task 0 is another task."""
        first, second = group(1.0, 0.0), group(0.0, 1.0, task=1)
        write(tmp_path, first[0], second[0])
        write(tmp_path, *group(0.5, given="Other?"), second[1], first[1], name="s.jsonl")
        (tmp_path / "s.jsonl").write_text("\n" + (tmp_path / "s.jsonl").read_text())
        done = await export(tmp_path, "--to", "dpo", files=("r.jsonl", "s.jsonl"))
        assert done.code == 0, done.err
        assert [row["chosen"][0]["content"] for row in read(tmp_path)] == ["0/0", "1/1"]
        assert done.json["tasks_without_pairs"] == {"fewer than two rollouts that can be used": 1}

    async def test_rollouts_that_chat_cannot_say_make_no_pair(self, tmp_path: Path) -> None:
        write(tmp_path, *group(1.0, 0.5), line(call(arguments="{"), reward=0.0))
        done = await export(tmp_path, "--to", "dpo")
        assert done.code == 0, done.err
        assert read(tmp_path)[0]["rejected_reward"] == 0.5
        assert sum(done.json["left_out"].values()) == 1

    @pytest.mark.parametrize(
        ("lines", "arguments", "why"),
        [
            (group(1.0), (), "1 tasks: fewer than two rollouts"),
            (group(1.0, 1.0), (), "1 tasks: all rewards are equal"),
            (group(1.0, None), (), "1 rollouts: no reward"),
            (group(1.0, 0.8), ("--min-gap", 0.5), "1 tasks: no gap of --min-gap"),
            (group(0.2, 0.1), ("--min-reward", 0.5), "1 tasks: no reward of --min-reward"),
            ([line(said("same"), reward=r) for r in (0.0, 1.0)], (), "the same words were rewarded diff"),
        ],
    )
    async def test_no_pair_says_why(
        self, tmp_path: Path, lines: list[dict[str, Any]], arguments: tuple[object, ...], why: str
    ) -> None:
        write(tmp_path, *lines)
        done = await export(tmp_path, "--to", "dpo", *arguments)
        assert done.code == 1
        assert "no pair in" in done.err
        assert why in done.err
        assert "--repeats" in done.err
        assert not (tmp_path / "out.jsonl").exists()


async def test_mistakes_are_told(tmp_path: Path) -> None:
    write(tmp_path, line(said("Yes.")))
    there = await export(tmp_path, "--to", "sft")
    assert there.code == 0, there.err
    again = await export(tmp_path, "--to", "sft")
    assert (again.code, "--overwrite" in again.err) == (1, True)
    missing = await export(tmp_path, "--to", "sft", "--overwrite", files=("none.jsonl",))
    assert (missing.code, "there is no file none.jsonl" in missing.err) == (1, True)
    itself = await gymctl(
        "rollouts", "export", "r.jsonl", "--to", "sft", "--output", "r.jsonl", "--overwrite", cwd=tmp_path
    )
    assert (itself.code, "one of the files to read" in itself.err) == (1, True)
    (tmp_path / "r.jsonl").write_text("{\n")
    broken = await export(tmp_path, "--to", "dpo", "--overwrite")
    assert (broken.code, "r.jsonl:1: no JSON" in broken.err) == (1, True)
    assert len(read(tmp_path)) == 1


async def test_ctrl_c_leaves_the_old_output(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("old")
    many = json.dumps(line(call(), result(), said("Done."))) + "\n"
    (tmp_path / "r.jsonl").write_text(many * 20_000)
    given = ("rollouts", "export", "r.jsonl", "--to", "sft", "--output", "out.jsonl", "--overwrite")
    process = await start_gymctl(*given, cwd=tmp_path)
    try:
        async with asyncio.timeout(20):
            while len(names(tmp_path)) < 3:  # noqa: ASYNC110 - a file of another process has no event
                await asyncio.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert (process.returncode, b"Stopped." in err) == (1, True)
    assert (tmp_path / "out.jsonl").read_text() == "old"
    assert names(tmp_path) == ["out.jsonl", "r.jsonl"]
