"""A stand-in for GitLab's model registry, as far as it speaks MLflow's protocol.

Versions are three numbers, taken from the tag `gitlab.version`; they cannot be searched, their runs' files
are packages at an address of their own, and refusals have GitLab's form.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.fakes.hub import serving

__all__ = ["GITLAB_TOKEN", "FakeGitlab", "fake_gitlab"]

GITLAB_TOKEN = "glpat-0123456789abcdef"
_PROJECT = "/api/v4/projects/7"


@dataclass
class FakeGitlab:
    """What the registry holds: the files of each version of each model."""

    models: dict[str, dict[str, dict[str, bytes]]] = field(default_factory=dict)
    scope: str = "api"
    host: str = ""

    @property
    def url(self) -> str:
        """What a user copies from GitLab's page."""
        return f"{self.host}{_PROJECT}/ml/mlflow/"


class _Api:
    def __init__(self, gitlab: FakeGitlab) -> None:
        self.gitlab = gitlab
        self.runs: dict[str, str] = {}

    def app(self) -> web.Application:
        @web.middleware
        async def door(request: web.Request, handler: Any) -> web.StreamResponse:
            return self.refusal(request) or await handler(request)

        app = web.Application(middlewares=[door])
        api = f"{_PROJECT}/ml/mlflow/api/2.0/mlflow"
        app.add_routes(
            [
                web.post(f"{api}/registered-models/create", self.create_model),
                web.get(f"{api}/registered-models/get", self.model),
                web.get(f"{api}/registered-models/search", self.search),
                web.post(f"{api}/model-versions/create", self.create_version),
                web.get(f"{api}/model-versions/get", self.version),
                web.get(f"{api}/runs/get", self.run),
                web.put(f"{_PROJECT}/packages/ml_models/{{model}}/{{version}}/{{path:.+}}", self.put),
                web.get(f"{_PROJECT}/packages/ml_models/{{model}}/{{version}}/{{path:.+}}", self.get),
            ]
        )
        return app

    def refusal(self, request: web.Request) -> web.Response | None:
        if request.headers.get("Authorization") != f"Bearer {GITLAB_TOKEN}":
            return web.json_response({"message": "401 Unauthorized"}, status=401)
        if self.gitlab.scope != "api" and request.method != "GET":
            return web.json_response({"error": "insufficient_scope", "scope": "api"}, status=403)
        return None

    def missing(self) -> web.Response:
        return web.json_response({"error_code": "RESOURCE_DOES_NOT_EXIST"}, status=404)

    async def create_model(self, request: web.Request) -> web.Response:
        name = (await request.json())["name"]
        if name in self.gitlab.models:
            return web.json_response({"error_code": "RESOURCE_ALREADY_EXISTS"}, status=400)
        self.gitlab.models[name] = {}
        return web.json_response({"registered_model": {"name": name}})

    async def model(self, request: web.Request) -> web.Response:
        name = request.query["name"]
        if name not in self.gitlab.models:
            return self.missing()
        return web.json_response({"registered_model": {"name": name}})

    async def search(self, request: web.Request) -> web.Response:
        return web.json_response({"registered_models": [{"name": name} for name in self.gitlab.models]})

    async def create_version(self, request: web.Request) -> web.Response:
        wanted = await request.json()
        version = next(tag["value"] for tag in wanted["tags"] if tag["key"] == "gitlab.version")
        self.gitlab.models[wanted["name"]][version] = {}
        return self._version(wanted["name"], version)

    async def version(self, request: web.Request) -> web.Response:
        name, version = request.query["name"], request.query["version"]
        if version not in self.gitlab.models.get(name, {}):
            return self.missing()
        return self._version(name, version)

    def _version(self, name: str, version: str) -> web.Response:
        # Like GitLab, which counts versions for itself as well.
        run_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{name}/{version}"))
        self.runs[run_id] = f"{name}/{version}"
        shown = {"name": name, "version": "31", "run_id": run_id, "aliases": [version]}
        return web.json_response({"model_version": shown})

    async def run(self, request: web.Request) -> web.Response:
        place = self.runs[request.query["run_id"]]
        uri = f"{self.gitlab.host}{_PROJECT}/packages/ml_models/{place}/"
        info = {
            "run_id": request.query["run_id"],
            "artifact_uri": uri,
            "status": "RUNNING",
            "experiment_id": "1",
        }
        return web.json_response({"run": {"info": info, "data": {}}})

    def files(self, request: web.Request) -> dict[str, bytes]:
        return self.gitlab.models[request.match_info["model"]][request.match_info["version"]]

    async def put(self, request: web.Request) -> web.Response:
        self.files(request)[request.match_info["path"]] = await request.read()
        return web.json_response({"message": "201 Created"}, status=201)

    async def get(self, request: web.Request) -> web.Response:
        data = self.files(request).get(request.match_info["path"])
        if data is None:
            return web.json_response({"message": "404 Not Found"}, status=404)
        return web.Response(body=data)


@contextmanager
def fake_gitlab() -> Iterator[FakeGitlab]:
    """Runs a registry with nothing in it."""
    gitlab = FakeGitlab()
    with serving(_Api(gitlab).app()) as (gitlab.host,):
        yield gitlab
