"""A stand-in for Hugging Face's hub: the part of its HTTP API that huggingface_hub uses for datasets.

It listens on a port of its own in a thread of its own, keeps everything in memory, and counts what is asked.
Large files live on a second address, as on the real one, which must never see a token.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

__all__ = ["FakeHub", "Repo", "fake_hub"]

TOKEN = "hf_reader_0123456789"
WRITER = "hf_writer_0123456789"
LFS_FROM = 1000
"""Files of so many bytes and more live in large storage."""


@dataclass
class Repo:
    """A dataset repository."""

    files: dict[str, bytes] = field(default_factory=dict)
    private: bool = False
    gated: bool = False
    revisions: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Branches and tags besides main."""
    commits: list[dict[str, Any]] = field(default_factory=list)
    pull_requests: list[dict[str, bytes]] = field(default_factory=list)

    def at(self, revision: str) -> dict[str, bytes] | None:
        """The files of a branch, a tag or a commit."""
        for name, files in {"main": self.files, **self.revisions}.items():
            if revision in (name, commit_of(files)):
                return files
        return None


@dataclass
class FakeHub:
    """The hub's content, and what was asked of it."""

    repos: dict[str, Repo] = field(default_factory=dict)
    collections: dict[str, list[str]] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    """Large storage, by SHA-256."""
    asked: Counter[str] = field(default_factory=Counter)
    ranges: list[str] = field(default_factory=list)
    """The Range headers of downloads."""
    leaked: list[str] = field(default_factory=list)
    """Credentials that were sent to large storage."""
    failures: list[int] = field(default_factory=list)
    """Statuses that the next requests for files are answered with."""
    late_failures: list[int] = field(default_factory=list)
    """The same, after it was said that the file is there."""
    cut_after: list[int] = field(default_factory=list)
    """Downloads break off after so many bytes, one after the other."""
    corrupt: bool = False
    """Whether downloads have a wrong byte."""
    ignore_ranges: bool = False
    stall: bool = False
    """Whether downloads that break off do so only when the other side goes away."""
    stalled: threading.Event = field(default_factory=threading.Event)
    url: str = ""
    storage_url: str = ""

    def add(self, name: str, **files: bytes) -> Repo:
        """Adds a repository; `train_jsonl` stands for train.jsonl."""
        repo = self.repos.setdefault(name, Repo())
        repo.files.update({path.replace("_jsonl", ".jsonl"): data for path, data in files.items()})
        return repo

    async def until_stalled(self) -> None:
        """Waits till a download has stopped half-way."""
        assert await asyncio.to_thread(self.stalled.wait, 40), "nobody downloads"

    def reset(self) -> None:
        """Forgets everything but where it listens."""
        fresh = FakeHub(url=self.url, storage_url=self.storage_url)
        self.__dict__.update(fresh.__dict__)


def commit_of(files: dict[str, bytes]) -> str:
    """A commit's name, made from its content."""
    digest = hashlib.sha1(b"", usedforsecurity=False)
    for path in sorted(files):
        digest.update(path.encode() + b"\0" + files[path])
    return digest.hexdigest()


def git_sha1(data: bytes) -> str:
    """What Git calls a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def refused(status: int, code: str, text: str) -> web.Response:
    return web.Response(status=status, headers={"X-Error-Code": code, "X-Error-Message": text}, text=text)


class _Api:
    """The handlers."""

    def __init__(self, hub: FakeHub) -> None:
        self.hub = hub

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 30)
        dataset = "/api/datasets/{owner}/{name}"
        app.add_routes(
            [
                # aiohttp answers HEAD by the same handler.
                web.get("/datasets/{owner}/{name}/resolve/{revision}/{path:.+}", self.resolve),
                web.get(f"{dataset}/tree/{{revision}}", self.tree),
                web.get(f"{dataset}/refs", self.refs),
                web.get(f"{dataset}/revision/{{revision}}", self.info),
                web.get(dataset, self.info),
                web.get("/api/datasets", self.list),
                web.post("/api/repos/create", self.create),
                web.post(f"{dataset}/preupload/{{revision}}", self.preupload),
                web.post(f"{dataset}/commit/{{revision}}", self.commit),
                web.post("/datasets/{owner}/{name}.git/info/lfs/objects/batch", self.batch),
                web.post("/verify/{oid}", self.verify),
                web.get("/api/collections/{owner}/{slug}", self.collection),
                web.post("/api/collections/{owner}/{slug}/items", self.collect),
            ]
        )
        return app

    def storage(self) -> web.Application:
        app = web.Application(client_max_size=1 << 30)
        app.add_routes([web.get("/blob/{oid}", self.blob), web.put("/blob/{oid}", self.put_blob)])
        return app

    # ---- who may what

    def token(self, request: web.Request) -> str:
        return request.headers.get("Authorization", "").removeprefix("Bearer ")

    def repo(self, request: web.Request) -> tuple[str, Repo] | web.Response:
        """The repository that a request is about, if the asker may see it."""
        name = f"{request.match_info['owner']}/{request.match_info['name']}"
        token = self.token(request)
        if token and token not in (TOKEN, WRITER):
            return refused(401, "", "Invalid credentials in Authorization header")
        repo = self.hub.repos.get(name)
        if repo is None or (repo.private and not token):
            # Who is nobody must not learn what there is.
            return refused(404 if token else 401, "RepoNotFound", "Repository not found")
        if repo.gated and token != WRITER:
            return refused(403, "GatedRepo", "Access to this dataset is restricted")
        return name, repo

    def writable(self, request: web.Request) -> tuple[str, Repo] | web.Response:
        found = self.repo(request)
        if isinstance(found, tuple) and self.token(request) != WRITER and "create_pr" not in request.query:
            return refused(403, "", "You have no write access")
        return found

    # ---- reading

    async def resolve(self, request: web.Request) -> web.StreamResponse:
        self.hub.asked[f"{request.method} file"] += 1
        if failures := self.hub.failures or (request.method == "GET" and self.hub.late_failures):
            return web.Response(status=failures.pop(0), text="out of order")
        found = self.repo(request)
        if isinstance(found, web.Response):
            return found
        files = found[1].at(request.match_info["revision"])
        if files is None:
            return refused(404, "RevisionNotFound", "Invalid rev id")
        path = request.match_info["path"]
        if path not in files:
            return refused(404, "EntryNotFound", "Entry not found")
        data = files[path]
        headers = {"X-Repo-Commit": commit_of(files), "Accept-Ranges": "bytes"}
        if len(data) < LFS_FROM:
            return await self.send(request, data, {**headers, "ETag": f'"{git_sha1(data)}"'})
        oid = hashlib.sha256(data).hexdigest()
        self.hub.blobs[oid] = data
        headers |= {
            "X-Linked-Etag": f'"{oid}"',
            "X-Linked-Size": str(len(data)),
            "Location": f"{self.hub.storage_url}/blob/{oid}",
        }
        return web.Response(status=302, headers=headers)

    async def send(self, request: web.Request, data: bytes, headers: dict[str, str]) -> web.StreamResponse:
        """Sends a file or a range of it, breaking off where the test wants it."""
        start, status = 0, 200
        if (wanted := request.headers.get("Range")) and not self.hub.ignore_ranges:
            self.hub.ranges.append(wanted)
            start, status = int(wanted.removeprefix("bytes=").rstrip("-")), 206
            if start >= len(data):
                return web.Response(status=416)
            headers = {**headers, "Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
        body = data[start:]
        if self.hub.corrupt:
            body = bytes([body[0] ^ 1]) + body[1:]
        response = web.StreamResponse(status=status, headers=headers)
        response.content_length = len(body)
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        if self.hub.cut_after:
            await response.write(body[: self.hub.cut_after.pop(0)])
            assert request.transport is not None
            if self.hub.stall:
                self.hub.stalled.set()
                while not request.transport.is_closing():  # noqa: ASYNC110 - nobody tells a handler
                    await asyncio.sleep(0.02)
            request.transport.close()
            return response
        await response.write(body)
        await response.write_eof()
        return response

    async def tree(self, request: web.Request) -> web.Response:
        found = self.repo(request)
        if isinstance(found, web.Response):
            return found
        files = found[1].at(request.match_info["revision"])
        if files is None:
            return refused(404, "RevisionNotFound", "Invalid rev id")
        return web.json_response(
            [
                {"type": "file", "path": path, "size": len(data), "oid": git_sha1(data)}
                for path, data in files.items()
            ]
        )

    async def refs(self, request: web.Request) -> web.Response:
        found = self.repo(request)
        if isinstance(found, web.Response):
            return found
        names = ["main", *found[1].revisions]
        branches = [{"name": one, "ref": f"refs/heads/{one}", "targetCommit": "0" * 40} for one in names]
        return web.json_response({"branches": branches, "converts": [], "tags": []})

    async def info(self, request: web.Request) -> web.Response:
        found = self.repo(request)
        if isinstance(found, web.Response):
            return found
        name, repo = found
        siblings = [{"rfilename": path} for path in repo.files]
        return web.json_response(
            {"id": name, "sha": commit_of(repo.files), "siblings": siblings, "private": repo.private}
        )

    async def list(self, request: web.Request) -> web.Response:
        owner = request.query.get("author", "")
        return web.json_response([{"id": one} for one in self.hub.repos if one.startswith(f"{owner}/")])

    async def blob(self, request: web.Request) -> web.StreamResponse:
        self.hub.asked["GET blob"] += request.method == "GET"
        if "Authorization" in request.headers:
            self.hub.leaked.append(request.headers["Authorization"])
        data = self.hub.blobs[request.match_info["oid"]]
        return await self.send(request, data, {"ETag": f'"{request.match_info["oid"]}"'})

    # ---- writing

    async def create(self, request: web.Request) -> web.Response:
        wanted = await request.json()
        name = f"{wanted['organization']}/{wanted['name']}"
        if self.token(request) not in (TOKEN, WRITER):
            return refused(401, "", "Invalid credentials in Authorization header")
        if self.token(request) != WRITER:
            return refused(403, "", "You don't have the rights to create a dataset under this namespace")
        if name in self.hub.repos:
            there = {
                "error": "You already created this dataset repo",
                "url": f"{self.hub.url}/datasets/{name}",
            }
            return web.json_response(there, status=409)
        private = wanted.get("private") or wanted.get("visibility") == "private"
        self.hub.repos[name] = Repo(private=bool(private))
        return web.json_response({"url": f"{self.hub.url}/datasets/{name}"})

    async def preupload(self, request: web.Request) -> web.Response:
        found = self.writable(request)
        if isinstance(found, web.Response):
            return found
        files = [
            {
                "path": one["path"],
                "uploadMode": "lfs" if one["size"] >= LFS_FROM else "regular",
                "shouldIgnore": False,
            }
            for one in (await request.json())["files"]
        ]
        return web.json_response({"files": files})

    async def batch(self, request: web.Request) -> web.Response:
        found = self.writable(request)
        if isinstance(found, web.Response):
            return found
        objects = []
        for one in (await request.json())["objects"]:
            actions = {
                "upload": {"href": f"{self.hub.storage_url}/blob/{one['oid']}"},
                "verify": {"href": f"{self.hub.url}/verify/{one['oid']}"},
            }
            objects.append({**one, **({} if one["oid"] in self.hub.blobs else {"actions": actions})})
        return web.json_response({"transfer": "basic", "objects": objects})

    async def put_blob(self, request: web.Request) -> web.Response:
        self.hub.asked["PUT blob"] += 1
        data = await request.read()
        if hashlib.sha256(data).hexdigest() != request.match_info["oid"]:
            return web.Response(status=400)
        self.hub.blobs[request.match_info["oid"]] = data
        return web.Response()

    async def verify(self, request: web.Request) -> web.Response:
        known = request.match_info["oid"] in self.hub.blobs
        return web.json_response({}, status=200 if known else 404)

    async def commit(self, request: web.Request) -> web.Response:
        found = self.writable(request)
        if isinstance(found, web.Response):
            return found
        name, repo = found
        header: dict[str, Any] = {}
        added: dict[str, bytes] = {}
        for line in (await request.text()).splitlines():
            part = json.loads(line)
            value = part["value"]
            if part["key"] == "header":
                header = value
            elif part["key"] == "file":
                added[value["path"]] = base64.b64decode(value["content"])
            elif part["key"] == "lfsFile":
                added[value["path"]] = self.hub.blobs[value["oid"]]
        answer = {"commitUrl": f"{self.hub.url}/datasets/{name}/commit/x", "success": True}
        if "create_pr" in request.query:
            repo.pull_requests.append(added)
            number = len(repo.pull_requests)
            answer["pullRequestUrl"] = f"{self.hub.url}/datasets/{name}/discussions/{number}"
        else:
            revision = request.match_info["revision"]
            files = repo.files if revision == "main" else repo.revisions.setdefault(revision, {})
            files.update(added)
        repo.commits.append({**header, "paths": sorted(added)})
        return web.json_response({**answer, "commitOid": commit_of(repo.files)})

    # ---- collections

    async def collection(self, request: web.Request) -> web.Response:
        slug = f"{request.match_info['owner']}/{request.match_info['slug']}"
        if slug not in self.hub.collections:
            return refused(404, "", "Collection not found")
        return web.json_response(self._collection(slug))

    async def collect(self, request: web.Request) -> web.Response:
        slug = f"{request.match_info['owner']}/{request.match_info['slug']}"
        if self.token(request) != WRITER:
            return refused(403, "", "You have no write access")
        if slug not in self.hub.collections:
            return refused(404, "", "Collection not found")
        item = (await request.json())["item"]["id"]
        if item in self.hub.collections[slug]:
            return web.json_response({"error": "Item already in the collection"}, status=409)
        self.hub.collections[slug].append(item)
        return web.json_response(self._collection(slug))

    def _collection(self, slug: str) -> dict[str, Any]:
        items = [
            {"_id": str(number), "id": one, "type": "dataset", "repoType": "dataset", "position": number}
            for number, one in enumerate(self.hub.collections[slug])
        ]
        return {
            "slug": slug,
            "title": slug,
            "owner": {"name": slug.partition("/")[0]},
            "items": items,
            "lastUpdated": "2026-01-01T00:00:00.000Z",
            "position": 0,
            "private": False,
            "theme": "blue",
            "upvotes": 0,
        }


@contextmanager
def serving(*apps: web.Application) -> Iterator[list[str]]:
    """Serves applications in a thread of their own; gives their addresses."""
    urls: list[str] = []
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        runners = [web.AppRunner(app, shutdown_timeout=0.1) for app in apps]
        for runner in runners:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            urls.append(site.name)
        for number, runner in enumerate(runners):
            host, port = runner.addresses[0][:2]
            urls[number] = f"http://{host}:{port}"
        ready.set()
        await stop.wait()
        for runner in runners:
            await runner.cleanup()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        finally:
            loop.close()
            ready.set()

    thread = threading.Thread(target=run, name="fake hub")
    thread.start()
    ready.wait()
    try:
        yield urls
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


@contextmanager
def fake_hub() -> Iterator[FakeHub]:
    """Runs a hub with nothing in it."""
    hub = FakeHub()
    api = _Api(hub)
    with serving(api.app(), api.storage()) as (hub.url, storage):
        # Another host by its name, as on the real one.
        hub.storage_url = storage.replace("127.0.0.1", "localhost")
        yield hub
