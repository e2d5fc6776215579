"""What a response says of its sampling, from the request that an engine got."""

from typing import Any

import pytest

from gymapi.v1.responses_pb2 import Response, SamplingParams
from gymd.convert import tell_sampling


def answer() -> Response:
    response = Response(temperature=0.5, top_p=0.5)
    response.output.add().token_trace.prompt_token_ids.append(1)
    return response


NUMBERS: dict[str, tuple[dict[str, Any], SamplingParams]] = {
    "whole numbers as fractions": ({"top_k": 5.0, "min_p": 0}, SamplingParams(top_k=5, min_p=0.0)),
    "all tokens": ({"top_k": -1}, SamplingParams(top_k=-1)),
    "a seed of the engine's choice": ({"seed": -1, "top_k": 1}, SamplingParams(top_k=1)),
    "the seed zero": ({"seed": 0}, SamplingParams(seed=0)),
    "other fields": ({"min_tokens": 3, "seed": 4, "messages": []}, SamplingParams(seed=4)),
}


@pytest.mark.parametrize(("sent", "told"), NUMBERS.values(), ids=NUMBERS)
def test_numbers(sent: dict[str, Any], told: SamplingParams) -> None:
    response = answer()
    tell_sampling(response, {"temperature": 1, **sent})
    assert response.output[0].token_trace.sampling == told
    assert response.temperature == 1.0
    assert not response.HasField("top_p")


@pytest.mark.parametrize("value", [None, "5", True, [5], 2**70, float("inf"), float("nan"), 0.5])
def test_what_is_no_number_of_the_field_stays_unsaid(value: Any) -> None:
    response = answer()
    tell_sampling(response, {"top_k": value, "seed": value})
    assert not response.output[0].token_trace.HasField("sampling")


@pytest.mark.parametrize("value", [None, "5", True, 2**2000, float("inf"), float("nan")])
def test_what_is_no_number_at_all(value: Any) -> None:
    response = answer()
    tell_sampling(response, dict.fromkeys(("temperature", "top_p", "min_p", "presence_penalty"), value))
    assert not response.output[0].token_trace.HasField("sampling")
    assert not response.HasField("temperature")


@pytest.mark.parametrize("response", [Response(), Response(output=[{"message": {"content_text": "a"}}])])
def test_without_ids_there_is_nothing_to_note_it_with(response: Response) -> None:
    tell_sampling(response, {"temperature": 0.5, "top_k": 5})
    assert response.temperature == 0.5
    assert all(not item.HasField("token_trace") for item in response.output)
