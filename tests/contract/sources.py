"""The sources as the contract tests see them: files, module names, and what each imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["ROOT", "SOURCE_ROOTS", "Import", "Module", "modules"]

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = {
    "gymd": ROOT,
    "gymapi": ROOT / "gen",
    "gymservers": ROOT / "servers",
    "gymctl": ROOT / "cli",
}
"""Where each of our packages lives, as pyproject.toml packs them."""


@dataclass(frozen=True)
class Import:
    """One imported module and the line that asks for it."""

    target: str
    line: int


@dataclass(frozen=True)
class Module:
    """One source file of ours."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def where(self) -> str:
        """Its path below the repository's root."""
        return self.path.relative_to(ROOT).as_posix()

    def imports(self) -> Iterator[Import]:
        """Every import statement, those inside functions and `if TYPE_CHECKING` included."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Import(alias.name, node.lineno)
            elif isinstance(node, ast.ImportFrom):
                base = self._base(node)
                # `from gymd import errors` imports gymd.errors, `from gymd import __version__` gymd.
                for alias in node.names:
                    inner = f"{base}.{alias.name}"
                    yield Import(inner if _is_module(inner) else base, node.lineno)

    def _base(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]
        parts = package.split(".")
        kept = parts[: len(parts) - (node.level - 1)]
        return ".".join([*kept, node.module] if node.module else kept)


def _is_module(name: str) -> bool:
    root = SOURCE_ROOTS.get(name.partition(".")[0])
    if root is None:
        return False
    path = root.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


@cache
def modules() -> tuple[Module, ...]:
    """Every Python file of the four packages, without the tests that sit beside the servers."""
    found = []
    for package, root in SOURCE_ROOTS.items():
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            if "tests" in parts or "__pycache__" in parts:
                continue
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found.append(Module(name, path, ast.parse(path.read_text(encoding="utf-8"), str(path))))
    return tuple(found)
