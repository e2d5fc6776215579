"""Finds the class that implements a server."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from gymd.errors import error
from gymd.sdk.agent import AgentServer
from gymd.sdk.base import Server
from gymd.sdk.model import ModelServer
from gymd.sdk.resources import ResourcesServer

__all__ = ["load_server_class"]

_BASES: dict[str, type[Server]] = {
    "model": ModelServer,
    "agent": AgentServer,
    "resources": ResourcesServer,
}
_FOLDERS = {"model": "models", "agent": "agents", "resources": "resources"}


def load_server_class(kind: str, implementation: str, entrypoint: str = "") -> type[Server]:
    """The class of a server.

    Args:
        kind: model, agent or resources.
        implementation: folder name of a built-in or installed server.
        entrypoint: "package.module:Class" or "path/to/file.py:Class"; "" or "app.py" means built-in.

    Raises:
        InvalidRequest: there is no such module or class, or its import fails; the text says which.
    """
    module_name, _, class_name = entrypoint.partition(":")
    if not class_name:
        module_name = f"gymservers.{_FOLDERS[kind]}.{implementation}.server"
    try:
        module = _import(module_name)
    except ImportError as failure:
        text = f"cannot import {module_name} for {implementation}: {failure}"
        raise error("INVALID_REQUEST", text, implementation=implementation, module=module_name) from failure
    if class_name:
        return _named(module, class_name, _BASES[kind])
    return _only(module, _BASES[kind])


def _import(name: str) -> ModuleType:
    if not name.endswith(".py"):
        return importlib.import_module(name)
    path = Path(name).resolve()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise ImportError(f"no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _named(module: ModuleType, name: str, base: type[Server]) -> type[Server]:
    found: Any = getattr(module, name, None)
    if inspect.isclass(found) and issubclass(found, base):
        return found
    text = f"{module.__name__} has no class {name} derived from {base.__name__}"
    raise error("INVALID_REQUEST", text, module=module.__name__)


def _only(module: ModuleType, base: type[Server]) -> type[Server]:
    found = [
        value
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and issubclass(value, base)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]
    if len(found) == 1:
        return found[0]
    names = ", ".join(cls.__name__ for cls in found) or "none"
    text = f"{module.__name__} must define exactly one public {base.__name__}; found: {names}"
    raise error("INVALID_REQUEST", text, module=module.__name__)
