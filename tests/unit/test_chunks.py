"""Results that are larger than a message: cut by the daemon, put together by the client."""

import hashlib

import pytest

from gymapi.v1.rollout_pb2 import Rollout
from gymapi.v1.rollout_service_pb2 import OpenSession, ResultChunk, StreamRolloutsResponse
from gymd.client.chunks import ChunkReader
from gymd.errors import InvalidRequest
from tests.fakes.plan import Plan, task


def opened(window: int = 0, **fields: object) -> Plan:
    plan = Plan()
    opening = OpenSession(
        granted_rollouts=10,
        max_message_bytes=5000,
        accepts_chunks=True,
        **fields,  # type: ignore[arg-type]
    )
    opening.resume_window.seconds = window
    plan.send(open=opening)
    plan.take("opened")
    return plan


def chunks(plan: Plan) -> list[StreamRolloutsResponse]:
    found = []
    while True:
        found.append(plan.take("result_chunk"))
        assert found[-1].ByteSize() <= 5000
        if found[-1].result_chunk.last:
            return found


@pytest.mark.parametrize("window", [0, 60])
def test_a_large_result_comes_in_chunks_between_the_others(window: int) -> None:
    plan = opened(window)
    plan.submit(task("a", 3))
    plan.executor.finish(1, text="small")
    plan.executor.finish(1, text="x" * 20_000)
    plan.executor.finish(1, text="small")
    assert [sequence for sequence, _, _ in plan.results()] == [1]
    reader = ChunkReader()
    results = [reader.take(frame.result_chunk) for frame in chunks(plan)]
    assert results[:-1] == [None] * (len(results) - 1)
    assert len(results) >= 5
    whole = results[-1]
    assert whole is not None
    assert (whole.sequence, whole.rollout.rollout_id) == (2, "a/1")
    assert whole.rollout.termination_reason == "x" * 20_000
    assert [sequence for sequence, _, _ in plan.results()] == [3]
    plan.session.half_close()
    plan.take("summary")


def test_after_a_broken_stream_it_begins_at_its_start() -> None:
    plan = opened(60)
    plan.submit(task("a"))
    plan.executor.finish(1, text="x" * 20_000)
    assert plan.take("result_chunk").result_chunk.offset_bytes == 0
    plan.session.detach(plan.wake)
    plan.session.resume(OpenSession(session_id="s1", last_sequence=0), plan.wake)
    plan.take("opened")
    assert chunks(plan)[0].result_chunk.offset_bytes == 0


def test_bytes_are_granted_for_the_whole() -> None:
    plan = opened(granted_bytes=10_000)
    plan.submit(task("a"))
    plan.executor.finish(1, text="x" * 20_000)
    plan.nothing()


def chunk(offset: int, data: bytes, **fields: object) -> ResultChunk:
    return ResultChunk(sequence=1, offset_bytes=offset, data=data, **fields)  # type: ignore[arg-type]


def test_a_missing_chunk_and_a_wrong_checksum_are_noticed() -> None:
    data = Rollout(rollout_id="r/0").SerializeToString()
    digest = hashlib.sha256(data).hexdigest()
    reader = ChunkReader()
    assert reader.take(chunk(0, data[:2])) is None
    with pytest.raises(InvalidRequest, match="for byte 3, not 2"):
        reader.take(chunk(3, data[3:]))
    reader.clear()
    with pytest.raises(InvalidRequest, match="checksum"):
        reader.take(chunk(0, data, last=True, sha256="0" * 64))
    result = reader.take(chunk(0, data, last=True, sha256=digest))
    assert result is not None
    assert result.rollout.rollout_id == "r/0"
