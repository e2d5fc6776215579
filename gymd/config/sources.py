"""Reads the sources of a configuration: YAML files with their includes, env.yaml, the command line."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gymd.config.builtin import FOLDER_OF_KIND, builtin_names, find_config
from gymd.config.overrides import Override, apply_override, parse_overrides
from gymd.config.problems import COMMAND_LINE, Report, suggest
from gymd.config.resolve import fill_from_environment, resolve

__all__ = ["CONFIG_PATHS", "ENV_FILE", "Layer", "Sources", "read_sources"]

CONFIG_PATHS = "config_paths"
"""The key that lists files to include."""

ENV_FILE = "env.yaml"
"""The file for secrets and local values, looked for in the working directory."""


@dataclass(frozen=True)
class Layer:
    """One file's content, without its includes."""

    path: Path
    source: str
    """The path as problems show it."""
    tree: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Sources:
    """All that was read, in the order of precedence."""

    files: list[Layer]
    """Lowest precedence first."""
    env: Layer | None
    overrides: list[Override]


def read_sources(
    files: Sequence[str | Path],
    overrides: Sequence[str],
    env_file: Path | None,
    report: Report,
    environ: Mapping[str, str],
) -> Sources:
    """Reads everything there is to read; problems go to the report, which then counts as incomplete.

    The command line's `config_paths` follow `files`; env.yaml's count only if the command line names no file.
    """
    reader = _Reader(report, environ)
    parsed = parse_overrides(list(overrides), report)
    env = reader.read_env(env_file)
    # What an include may refer to: env.yaml and the command line.
    reader.context = env.tree if env else {}
    from_env = reader.context.get(CONFIG_PATHS)
    listed = [override for override in parsed if override.key == (CONFIG_PATHS,)]
    parsed = [override for override in parsed if override not in listed]
    reader.context = _with_overrides(reader.context, parsed, report)
    wanted: list[tuple[str, str]] = [(str(name), COMMAND_LINE) for name in files]
    for override in listed[-1:]:
        wanted += [(name, COMMAND_LINE) for name in reader.listed_paths(override.value, COMMAND_LINE)]
    if not wanted and not listed and env:
        wanted = [(name, env.source) for name in reader.listed_paths(from_env, env.source)]
    reader.read_roots(wanted)
    if env:
        env.tree.pop(CONFIG_PATHS, None)
    return Sources(reader.layers, env, parsed)


def _with_overrides(tree: dict[str, Any], overrides: list[Override], report: Report) -> dict[str, Any]:
    from omegaconf import OmegaConf

    config = OmegaConf.create(tree)
    # Only a view for includes: the real application comes later and reports what is wrong.
    unheard = Report(report.cwd)
    for override in overrides:
        apply_override(config, override, unheard, lambda name: True)
    result: dict[str, Any] = OmegaConf.to_container(config)  # type: ignore[assignment]
    return result


class _Reader:
    def __init__(self, report: Report, environ: Mapping[str, str]) -> None:
        self.report = report
        self.environ = environ
        self.context: dict[str, Any] = {}
        self.layers: list[Layer] = []
        self._done: set[Path] = set()
        self._stack: list[Path] = []
        self._roots: set[Path] = set()

    def read_env(self, env_file: Path | None) -> Layer | None:
        path = self.report.cwd / (env_file.expanduser() if env_file else ENV_FILE)
        if env_file and not path.is_file():
            self._fail((), f"the file {env_file} does not exist.", "Create it, or name another one.")
        return self._read(path) if path.is_file() else None

    def read_roots(self, wanted: list[tuple[str, str]]) -> None:
        """Reads the files that were asked for, each after what it includes.

        A file that was asked for keeps its own place even if another one includes it as well.
        """
        paths = [path for name, source in wanted if (path := self._locate(name, None, source))]
        self._roots = set(paths)
        for path in paths:
            self._load(path)

    def listed_paths(self, value: Any, source: str, own: dict[str, Any] | None = None) -> list[str]:
        """The entries of a `config_paths` value (a list, or text with commas), with references resolved."""
        resolved = self._resolve_paths(value, source, own or {}) if "${" in str(value) else value
        entries = resolved if isinstance(resolved, list) else [resolved]
        names: list[str] = []
        for entry in entries:
            if isinstance(entry, list):
                names += [str(item) for item in entry]
            elif isinstance(entry, str):
                names += [name for part in entry.split(",") if (name := part.strip())]
            elif entry is not None:
                advice = "Write config_paths: [first.yaml, second.yaml]."
                self._fail((CONFIG_PATHS,), "must be a list of file names.", advice, file=source)
        return names

    def _resolve_paths(self, value: Any, source: str, own: dict[str, Any]) -> Any:
        tree = {**own, **self.context, CONFIG_PATHS: value}
        fill_from_environment(tree, self.environ, self.report.origins)
        # Only this key: anything else unresolved is judged once everything is merged.
        notes = Report(self.report.cwd)
        resolved = resolve(tree, notes, only=CONFIG_PATHS).get(CONFIG_PATHS)
        for problem in notes.problems:
            self._fail((CONFIG_PATHS,), problem.message, problem.advice, file=source)
        return None if notes.problems else resolved

    def _load(self, path: Path) -> None:
        if path in self._stack:
            chain = [*self._stack[self._stack.index(path) :], path]
            text = " -> ".join(self.report.display(step) for step in chain)
            advice = "Remove one of these config_paths entries."
            self._fail(
                (CONFIG_PATHS,), f"the files include each other: {text}.", advice, file=self._source(-1)
            )
            return
        if path in self._done or (self._stack and path in self._roots):
            return
        self._done.add(path)
        layer = self._read(path)
        if layer is None:
            return
        self._stack.append(path)
        value = layer.tree.pop(CONFIG_PATHS, None)
        for name in self.listed_paths(value, layer.source, layer.tree):
            if included := self._locate(name, path, layer.source):
                self._load(included)
        self._stack.pop()
        self.layers.append(layer)

    def _source(self, position: int) -> str:
        return self.report.display(self._stack[position])

    def _locate(self, name: str, includer: Path | None, source: str) -> Path | None:
        given = Path(name).expanduser()
        bases = [self.report.cwd, *([includer.parent] if includer else [])]
        candidates = list(dict.fromkeys(Path(os.path.normpath(base / given)) for base in bases))
        for candidate in candidates:
            if candidate.is_file():
                return candidate.resolve()
        found, searched = find_config(name)
        if len(found) == 1:
            return found[0].resolve()
        key = (CONFIG_PATHS,)
        if found:
            advice = f"Write {' or '.join(f'{path.parent.parent.name}/{name}' for path in found)}."
            self._fail(key, f"{name!r} is the name of several built-in servers.", advice, file=source)
        else:
            places = "".join(f"\n      {place}" for place in (*candidates, *searched))
            known = [name for kind in FOLDER_OF_KIND for name in builtin_names(kind)]
            advice = "Check the path; it is relative to the working directory or to the including file."
            if "." not in Path(name).name:
                advice = suggest(Path(name).name, known, label="Built-in")
            self._fail(key, f"there is no {name!r}. Searched:{places}", advice, file=source)
        return None

    def _read(self, path: Path) -> Layer | None:
        import yaml
        from omegaconf import DictConfig, OmegaConf
        from omegaconf.errors import GrammarParseError

        source = self.report.display(path)
        try:
            config = OmegaConf.load(path)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = f":{mark.line + 1}" if mark else ""
            # Only the parser's own words: the line itself may hold a secret.
            self._fail(
                (),
                f"{error.problem}.",
                "Correct the YAML on this line or just above.",
                file=f"{source}{line}",
            )
        except GrammarParseError as error:
            key = str(getattr(error, "full_key", "") or "")
            advice = "Close the ${...}, or write \\${ for the plain characters."
            self._fail((key,) if key else (), "the ${...} reference cannot be read.", advice, file=source)
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            reason = getattr(error, "strerror", None) or "it is not a UTF-8 text file"
            self._fail(
                (), f"the file cannot be read: {reason}.", "Check the file and its permissions.", file=source
            )
        else:
            if isinstance(config, DictConfig):
                tree: dict[str, Any] = OmegaConf.to_container(config)  # type: ignore[assignment]
                return Layer(path, source, {str(name): value for name, value in tree.items()})
            self._fail((), "the file must hold a mapping, not a list.", "Start it with a key.", file=source)
        return None

    def _fail(self, key: tuple[str, ...], message: str, advice: str, *, file: str | None = None) -> None:
        self.report.complete = False
        self.report.add(key, message, advice, file=file)
