"""The worker process of gymd.sdk.workers: calls on stdin, results on stdout.

Not in gymd.sdk, which would load gRPC and pydantic first: so a worker starts ten times faster, and one that
takes the place of a killed one is there at once.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pickle
import resource
import struct
import sys
from types import ModuleType
from typing import Any, BinaryIO

_HEADER = struct.Struct("!BI")
MEMORY_BYTES = 4 << 30
"""Most private memory of a worker: the called code gets a MemoryError before the machine runs out."""


def main() -> None:
    """Serves calls until stdin ends."""
    _limit_memory()
    # What the called code prints must not mix with the answers, nor may it read the requests.
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    _write(answers, 0, pickle.dumps(None))
    while len(header := requests.read(_HEADER.size)) == _HEADER.size:
        task = requests.read(_HEADER.unpack(header)[1])
        try:
            body = pickle.dumps(_call(task))
        except KeyboardInterrupt:
            raise
        except BaseException as failure:  # sys.exit and the panic of a Rust extension too
            text = f"{type(failure).__name__}: {failure}"
            _write(answers, 1, text.encode("utf-8", "backslashreplace"))
        else:
            _write(answers, 0, body)


def _limit_memory() -> None:
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    limit = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(hard, MEMORY_BYTES)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _call(task: bytes) -> Any:
    """Calls the function that a task names; without one it only loads the module."""
    module, source, qualname, args, kwargs = pickle.loads(task)  # from our own parent, by its own pipe
    target: Any = _module(module, source)
    if not qualname:
        return None
    for part in qualname.split("."):
        target = getattr(target, part)
    return getattr(target, "inline", target)(*args, **kwargs)


def _module(name: str, source: str | None) -> ModuleType:
    """The module of a function; by its file where it was loaded from one (`entrypoint: path.py:Class`)."""
    if name in sys.modules:
        return sys.modules[name]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as failure:
        spec = importlib.util.spec_from_file_location(name, source) if source else None
        if failure.name != name or spec is None or spec.loader is None:
            raise
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def _write(stream: BinaryIO, failed: int, body: bytes) -> None:
    stream.write(_HEADER.pack(failed, len(body)) + body)
    stream.flush()


if __name__ == "__main__":
    main()
