"""Puts results together that came in chunks. No I/O, no clock."""

from __future__ import annotations

import hashlib

from gymapi.v1.rollout_pb2 import Rollout
from gymapi.v1.rollout_service_pb2 import ResultChunk, RolloutResult
from gymd.errors import error

__all__ = ["ChunkReader"]


class ChunkReader:
    """Takes the chunks of one result after the other."""

    def __init__(self) -> None:
        self._data = bytearray()

    def clear(self) -> None:
        """Forgets a result whose rest does not come: the connection broke."""
        self._data.clear()

    def take(self, chunk: ResultChunk) -> RolloutResult | None:
        """Takes a chunk; returns the result when it is whole.

        Raises:
            InvalidRequest: PROTOCOL_VIOLATION, a chunk is missing, or the checksum is wrong.
        """
        if chunk.offset_bytes != len(self._data):
            have = len(self._data)
            text = f"a chunk of result {chunk.sequence} came for byte {chunk.offset_bytes}, not {have}"
            raise error("PROTOCOL_VIOLATION", text, sequence=chunk.sequence)
        self._data += chunk.data
        if not chunk.last:
            return None
        data = bytes(self._data)
        self._data.clear()
        if hashlib.sha256(data).hexdigest() != chunk.sha256:
            text = f"the checksum of result {chunk.sequence} is wrong"
            raise error("PROTOCOL_VIOLATION", text, sequence=chunk.sequence)
        return RolloutResult(sequence=chunk.sequence, rollout=Rollout.FromString(data))
