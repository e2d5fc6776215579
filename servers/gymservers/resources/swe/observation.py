"""What the model reads of a command's end, and how it hands in a patch."""

from __future__ import annotations

from gymservers.resources.swe.runtimes import Finished

__all__ = ["SUBMIT", "observation", "submitted"]

SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""A command that succeeds and prints this first hands in what follows, as mini-swe-agent has it."""


def observation(finished: Finished, most: int) -> str:
    """The exit code and the output, of which at most about `most` characters are shown."""
    text = finished.output.decode(errors="replace")
    parts = [f"<returncode>{finished.exit_code}</returncode>"]
    if finished.killed:
        parts.append(f"<exception>{finished.killed}</exception>")
    if len(text) > most:
        half = most // 2
        left = len(text) - 2 * half
        hint = "print less of it, or write it to a file and look at parts"
        text = f"{text[:half]}\n[{left:,} characters are left out here; {hint}]\n{text[-half:]}"
    parts += ["<output>", text.rstrip("\n"), "</output>"]
    return "\n".join(parts)


def submitted(finished: Finished) -> bytes | None:
    """The patch that a command handed in; None: it did not."""
    if finished.exit_code != 0:
        return None
    first, _, rest = finished.output.lstrip().partition(b"\n")
    return rest if first.strip() == SUBMIT.encode() else None
