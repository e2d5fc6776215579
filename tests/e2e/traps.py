"""An environment whose tools misbehave on request, for end-to-end tests; it writes what happens to a file."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from gymd.sdk import ResourcesServer, ServerConfig, Session, TaskView, tool


class TrapsConfig(ServerConfig):
    """Configuration of the traps."""

    journal: str


class Traps(ResourcesServer):
    """Every tool of a task behaves as its row says in `trap`."""

    Config = TrapsConfig
    config: TrapsConfig

    def _note(self, what: str) -> None:
        with Path(self.config.journal).open("a") as file:
            file.write(what + "\n")

    async def seed_session(self, session: Session, task: TaskView) -> None:
        session.state = task.fields.get("trap", "")
        self._note(f"seed {session.id}")

    @tool
    async def act(self, session: Session, word: str) -> str:
        """Act."""
        self._note(f"act {session.id}")
        if session.state == "hang":
            await asyncio.Event().wait()
        if session.state == "raise":
            raise RuntimeError("the tool is broken")
        if session.state == "exit":
            os._exit(41)
        if session.state == "slow":
            await asyncio.sleep(0.3)
        return f"done {word}"

    async def verify(self, session: Session) -> float:
        if session.state == "hang_verify":
            await asyncio.Event().wait()
        if session.state == "raise_verify":
            raise RuntimeError("the verifier is broken")
        return 1.0

    async def close_session(self, session: Session) -> None:
        self._note(f"close {session.id}")
