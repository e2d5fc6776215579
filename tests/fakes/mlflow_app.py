"""MLflow's own server behind a door that asks for a token. Run by tests, in MLflow's environment."""

from __future__ import annotations

import os
from typing import Any

from mlflow.server.fastapi_app import app as mlflow_app

TOKEN = os.environ["TEST_REGISTRY_TOKEN"]


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Lets through who has the token, and who asks whether the server is up."""
    if scope["type"] == "http" and scope["path"] != "/health":
        given = dict(scope["headers"]).get(b"authorization", b"").decode()
        if given != f"Bearer {TOKEN}":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"You are not authenticated."})
            return
    await mlflow_app(scope, receive, send)
