"""docs/protocol.md tells the truth: its frame-by-frame session is played against a real daemon.

The client here is a bare generated stub, as it would be in any other language.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from google.protobuf.json_format import MessageToDict, ParseDict

from gymapi.v1.rollout_service_pb2 import StreamRolloutsRequest
from gymapi.v1.rollout_service_pb2_grpc import RolloutServiceStub

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 60.0
ANY = "..."
"""Stands for what differs from run to run, alone or inside a text."""

POLICY = """
from gymd.sdk import ModelServer
from gymd.sdk.testing import function_call, make_response


class WeatherPolicy(ModelServer):
    async def create_response(self, params, call):
        if any(item.HasField("function_call_output") for item in params.input_items.items):
            return make_response("It is cold in Bonn.")
        return make_response(function_call("get_weather", {"city": "Bonn"}))
"""

CONFIG = {
    "config_paths": ["example_single_tool_call"],
    "policy_model": {"responses_api_models": {"weather": {"entrypoint": "policy.py:WeatherPolicy"}}},
    "gymd": {"listen": "127.0.0.1:0", "pool_hosts": 1, "state_dir": "state"},
}


def documented_session() -> list[tuple[str, Any]]:
    """The frames of the document: ("->" or "<-", JSON or a bare word), in order."""
    text = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- test: session -->\n```\n(.*?)```", text, re.S)
    assert found, "docs/protocol.md has lost its session"
    frames = []
    for block in re.split(r"^(?=-> |<- )", found[1], flags=re.M):
        if block.strip():
            arrow, body = block[:2], block[2:].strip()
            frames.append((arrow, json.loads(body) if body.startswith("{") else body))
    return frames


def differences(wanted: Any, found: Any, where: str = "") -> list[str]:
    """Where a real frame says something else than the documented one, which may leave fields out."""
    if isinstance(wanted, dict):
        if not isinstance(found, dict):
            return [f"{where} is {found!r}"]
        return [
            d for key, value in wanted.items() for d in differences(value, found.get(key), f"{where}.{key}")
        ]
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            return [f"{where} is {found!r}"]
        return [d for i, value in enumerate(wanted) for d in differences(value, found[i], f"{where}[{i}]")]
    if isinstance(wanted, str) and ANY in wanted:
        pattern = ".+".join(map(re.escape, wanted.split(ANY)))
        return (
            [] if isinstance(found, str) and re.fullmatch(pattern, found, re.S) else [f"{where} is {found!r}"]
        )
    return [] if found == wanted else [f"{where} is {found!r}, the document says {wanted!r}"]


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    """A daemon with the weather environment."""
    (tmp_path / "policy.py").write_text(POLICY)
    (tmp_path / "mesh.yaml").write_text(yaml.safe_dump(CONFIG))
    command = [sys.executable, "-m", "gymd", "-c", "mesh.yaml", "--wait-ready"]
    process = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(WAIT_S):
            yield json.loads(await process.stdout.readline())["address"]
    finally:
        process.terminate()
        assert await process.wait() == 0


class Session:
    """The stream, and the results of frames that the daemon cut differently than the document."""

    def __init__(self, call: Any) -> None:
        self.call = call

    async def received(self) -> Any:
        frame = await self.call.read()
        if frame is grpc.aio.EOF:
            return (await self.call.code()).name
        return MessageToDict(frame, preserving_proto_field_name=True)

    async def received_results(self, count: int) -> Any:
        """Results may come one by one; the document shows them together."""
        results: list[Any] = []
        while len(results) < count:
            results += (await self.received())["results"]["results"]
        return {"results": {"results": results}}


async def test_the_documented_session_is_what_happens(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel, asyncio.timeout(WAIT_S):
        session = Session(RolloutServiceStub(channel).StreamRollouts())
        for arrow, frame in documented_session():
            if arrow == "<-":
                wanted_results = frame.get("results", {}).get("results") if isinstance(frame, dict) else None
                found = await (
                    session.received_results(len(wanted_results)) if wanted_results else session.received()
                )
                assert differences(frame, found) == []
            elif frame == "half-close":
                await session.call.done_writing()
            else:
                await session.call.write(ParseDict(frame, StreamRolloutsRequest()))


def test_the_table_of_reasons_is_complete() -> None:
    from gymd.errors import REASON_CODES

    text = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    section = text.partition("\n## Errors\n")[2].partition("\n## ")[0]
    rows = {
        cells[1].strip(): {name.strip() for name in cells[2].split(",")}
        for line in section.splitlines()
        if (cells := line.split("|")) and len(cells) == 5
    }
    wanted: dict[str, set[str]] = {}
    names = {code.value[0]: code.name for code in grpc.StatusCode}
    for reason, code in REASON_CODES.items():
        wanted.setdefault(names[code], set()).add(reason)
    assert {code: reasons for code, reasons in rows.items() if code in wanted} == wanted
