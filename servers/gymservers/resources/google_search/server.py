"""Questions to be answered with the help of a search engine and a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import orjson
import pydantic

from gymapi.v1.responses_pb2 import Response
from gymd.errors import error
from gymd.sdk import ResourcesServer, Reward, ServerConfig, ToolError, tool
from gymservers.resources.google_search.backends import Backend
from gymservers.resources.google_search.documents import DocumentsBackend
from gymservers.resources.google_search.web import DEFAULT_SEARCH_URL, WebBackend

__all__ = ["GoogleSearch", "GoogleSearchConfig", "boxed_option", "shortened"]

HERE = Path(__file__).parent
MAX_WORDS = 10_000
KEPT_CHARACTERS = 5_000
"""Kept of each end of a page that is longer than MAX_WORDS."""
MAX_QUERY = 2_048

_BOX = "\\boxed{"


class GoogleSearchConfig(ServerConfig):
    """Configuration of google_search; spans are in seconds."""

    search_backend: Literal["google", "documents"] | None = None
    """google: the custom search API and the web. documents: a folder of files, without any network.
    None: google if there is a key, else documents."""
    google_api_key: str = pydantic.Field(default="", repr=False)
    """Key of the custom search API."""
    google_cx: str = ""
    """Id of the programmable search engine."""
    documents_dir: Path = HERE / "data" / "documents"
    """Folder of .md, .txt and .html files for the backend `documents`; subfolders are read too."""
    max_results: int = pydantic.Field(default=10, ge=1, le=10)
    """Results of one search; the API gives at most 10."""
    request_timeout_s: float = pydantic.Field(default=20.0, gt=0)
    """Limit of one request to the API or to a page, redirects included."""
    extract_timeout_s: float = pydantic.Field(default=10.0, gt=0)
    """Limit of reading the text out of a page, in a process that is killed when it is over."""
    max_page_bytes: int = pydantic.Field(default=5_000_000, ge=1)
    """Larger pages are refused."""
    max_concurrent_requests: int = pydantic.Field(default=64, ge=1)
    """Requests to the network at a time; more wait."""
    allow_private_addresses: bool = False
    """Let `browse` reach addresses of this machine and of private networks. The model chooses the address."""
    search_url: str = DEFAULT_SEARCH_URL
    """Where the custom search API is."""


class Question(pydantic.BaseModel):
    """The row's own fields; others are ignored."""

    expected_answer: str


class GoogleSearch(ResourcesServer):
    """Two tools, `search` and `browse`; the reward is for the right option in a box."""

    Config = GoogleSearchConfig
    config: GoogleSearchConfig

    async def start(self) -> None:
        """Opens the backend.

        Raises:
            InvalidRequest: the key is missing, or the folder of documents cannot be used.
        """
        config = self.config
        keys = bool(config.google_api_key and config.google_cx)
        self._name = config.search_backend or ("google" if keys else "documents")
        if self._name == "google" and not keys:
            text = (
                "search_backend is google, but google_api_key or google_cx is not set: put both into "
                "env.yaml, or set search_backend: documents"
            )
            raise error("INVALID_REQUEST", text, field="google_api_key")
        self._backend: Backend = (
            WebBackend(config) if self._name == "google" else DocumentsBackend(config.documents_dir)
        )
        await self._backend.start()

    async def stop(self) -> None:
        """Closes the backend."""
        await self._backend.close()

    def labels(self) -> dict[str, str]:
        """Where the results come from."""
        return {"search_backend": self._name}

    @tool
    async def search(
        self, query: Annotated[str, pydantic.Field(description="The term to search for")]
    ) -> dict[str, str]:
        """Search Google for a query and return up to 10 search results."""
        if not query.strip():
            raise ToolError("The query is empty.")
        if len(query) > MAX_QUERY:
            raise ToolError(f"The query is longer than {MAX_QUERY} characters.")
        found = await self._backend.search(query, self.config.max_results)
        return {"search_results": orjson.dumps([result.as_json() for result in found]).decode()}

    @tool
    async def browse(
        self, url: Annotated[str, pydantic.Field(description="The url of the page to get the content of")]
    ) -> dict[str, str]:
        """Returns the cleaned content of a webpage. If it is too long, only its two ends are returned."""
        return {"page_content": shortened(await self._backend.page(url.strip()))}

    async def verify(self, task: Question, response: Response) -> Reward:
        """1.0 if the first box of the last message holds exactly the expected answer, else 0.0."""
        option = boxed_option(response)
        return Reward(float(option == task.expected_answer), extras={"parsed_option": option})


def shortened(text: str) -> str:
    """A page of more than MAX_WORDS words is cut to its two ends."""
    if len(text.split()) <= MAX_WORDS:
        return text
    return f"{text[:KEPT_CHARACTERS]}\n...\n{text[-KEPT_CHARACTERS:]}"


def boxed_option(response: Response) -> str | None:
    r"""What the first \boxed{...} of the last message holds, to the first closing brace; None: no box."""
    messages = [item.message for item in response.output if item.WhichOneof("kind") == "message"]
    if not messages:
        return None
    last = messages[-1]
    texts = [part.output_text.text for part in last.content_parts.parts if part.HasField("output_text")]
    # No pattern: one takes time quadratic in a text of boxes that are never closed.
    _, opened, rest = ("\n".join(texts) if texts else last.content_text).partition(_BOX)
    option, closed, _ = rest.partition("}")
    return option if opened and closed else None
