"""llama.cpp inside this process: its own threads, reached through its loopback listener.

The listener and not the methods of the binding: those block a thread for each call and cannot be cancelled,
while a closed connection ends the generation within a second. A random key keeps other users of the machine
out.
"""

from __future__ import annotations

import atexit
import os
import secrets
from pathlib import Path
from typing import Any

from gymd.errors import error
from gymd.sdk.http import Endpoint

__all__ = ["Engine"]

_MOST_THREADS = 8
_QUIET = 0
_GGUF_MAGIC = b"GGUF"


class Engine:
    """A loaded model.

    Attributes:
        api: endpoint of the OpenAI-compatible API.
        root: endpoint of llama.cpp's own paths.
    """

    def __init__(self, path: Path, *, context_size: int, parallel: int, threads: int | None) -> None:
        """Loads the model, which takes seconds and holds the interpreter; raises GymdError."""
        key = secrets.token_urlsafe(24)
        self._server: Any = _load(path, context_size, parallel, threads or _cores(), key)
        # Native threads that outlive the interpreter's teardown would crash it.
        atexit.register(self.close)
        address = self._server.listening_address
        self.root = Endpoint(address, key, path.stem, url_key="model_path")
        self.api = Endpoint(f"{address}/v1", key, path.stem, url_key="model_path")

    def close(self) -> None:
        """Ends the engine's threads and frees the model; safe to repeat."""
        atexit.unregister(self.close)
        self._server = None


def _load(path: Path, context_size: int, parallel: int, threads: int, key: str) -> Any:
    try:
        import xllamacpp
    except ImportError as failure:
        text = "the embedded model needs the package xllamacpp; install it with: pip install 'gymd[local]'"
        raise error("SERVER_NOT_READY", f"{text} ({failure})", package="xllamacpp") from failure
    _check(path)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    # llama.cpp divides the context among its slots.
    params.n_ctx = context_size * parallel
    params.n_parallel = parallel
    params.port = 0
    params.api_keys = [key]
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    # Its cache of prompts may otherwise grow to 8 GiB.
    params.cache_ram_mib = 0
    params.ui = False
    params.warmup = False
    params.verbosity = _QUIET
    try:
        return xllamacpp.Server(params)
    except Exception as failure:
        text = f"llama.cpp cannot load {path}: {failure}; is it a GGUF model that fits into memory?"
        raise error("SERVER_NOT_READY", text, path=path) from failure


def _check(path: Path) -> None:
    """llama.cpp says little about files that are no models."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(_GGUF_MAGIC))
    except OSError as failure:
        text = f"cannot read the model {path}: {failure.strerror}; correct model_path"
        raise error("SERVER_NOT_READY", text, path=path) from failure
    if magic != _GGUF_MAGIC:
        raise error("SERVER_NOT_READY", f"{path} is no GGUF file; correct model_path", path=path)


def _cores() -> int:
    """All cores but one.

    The engine's threads wait for each other at every layer: one that shares its core with the rest of gymd
    makes all of them many times slower.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(_MOST_THREADS, cores - 1))
