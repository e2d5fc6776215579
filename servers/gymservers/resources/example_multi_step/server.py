"""Many needles: the model looks up the value of each synonym it was asked for, then hands in the list."""

from __future__ import annotations

import json
from typing import Any

import pydantic

from gymapi.v1.responses_pb2 import Response
from gymd.sdk import ResourcesServer, Reward, tool

__all__ = ["MultiNeedle"]

EXTRACT = "extract_synonym_values"


class Needles(pydantic.BaseModel):
    """The row's own fields."""

    expected_synonyms: list[str]
    expected_synonym_values: list[int] = pydantic.Field(min_length=1)
    minefield_label: str
    minefield_label_value: int


class MultiNeedle(ResourcesServer):
    """Two tools without state; 1.0 if the last list handed in is the expected one, in order."""

    @tool
    async def get_synonym_value(self, synonym: str) -> dict[str, int]:
        """Get the synonym value for a synonym."""
        return {"synonym_value": sum(map(ord, synonym))}

    @tool
    async def extract_synonym_values(self, synonym_values: list[int]) -> dict[str, bool]:
        """Extract the synonym values you retrieved for the term that is relevant to the user query."""
        return {"success": True}

    async def verify(self, task: Needles, response: Response) -> Reward:
        """Compares the list of the last extract call with the expected one."""
        expected = task.expected_synonym_values
        found = handed_in(response)
        accurate = found == expected
        # Not sets: a model may write lists or objects where numbers belong.
        overlap = sum(value in found for value in set(expected)) / len(expected)
        extras = {
            "parsed_synonym_values": found,
            "accuracy": accurate,
            "set_overlap": overlap,
            "original_term_minefield_hit": task.minefield_label in found
            or task.minefield_label_value in found,
            "order_instruction_following_failure": not accurate and overlap == 1.0,
        }
        return Reward(float(accurate), extras=extras)


def handed_in(response: Response) -> list[Any]:
    """The list of the last extract call as the model wrote it; [] if there is none, or no list in it."""
    for item in reversed(response.output):
        if item.HasField("function_call") and item.function_call.name == EXTRACT:
            try:
                arguments = json.loads(item.function_call.arguments_json)
            except (ValueError, RecursionError):
                return []
            values = arguments.get("synonym_values") if isinstance(arguments, dict) else None
            return values if isinstance(values, list) else []
    return []
