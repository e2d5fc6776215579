"""The servers that ship with gymd, found on disk without importing one: their names, old names and files.

`gymservers` is an open namespace package, so every installed distribution may add servers to it.
"""

import importlib.util
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

__all__ = [
    "RENAMED",
    "builtin_folder",
    "builtin_names",
    "builtin_path",
    "find_config",
    "modern_names",
    "modern_type_name",
]

NAMESPACE = "gymservers"

FOLDER_OF_KIND: Mapping[str, str] = {"resources": "resources", "agent": "agents", "model": "models"}

# The first part of a path, as NeMo Gym's checkout and as our short form write it.
_KIND_OF_PREFIX: Mapping[str, str] = {
    "resources_servers": "resources",
    "resources": "resources",
    "responses_api_agents": "agent",
    "agents": "agent",
    "responses_api_models": "model",
    "models": "model",
}

RENAMED: Mapping[str, str] = {
    "example_simple_weather": "example_single_tool_call",
    "simple_weather": "example_single_tool_call",
    "example_stateful_counter": "example_session_state_mgmt",
    "stateful_counter": "example_session_state_mgmt",
    "multineedle": "example_multi_step",
    "comp_coding": "code_gen",
    "workbench": "workplace_assistant",
    "library_judge_math": "math_with_judge",
    "multiverse_math_hard": "math_advanced_calculations",
}
"""Names from earlier releases of NeMo Gym and their successors."""

# The model instance that shipped agents point at has had both names.
_POLICY_NAMES = ("policy_model", "openai_model")
_YAML_SUFFIXES = (".yaml", ".yml")


def builtin_names(kind: str) -> list[str]:
    """The built-in implementations of a kind (`model`, `agent`, `resources`), sorted."""
    folders = (root / FOLDER_OF_KIND[kind] for root in _roots())
    return sorted({path.parent.name for folder in folders for path in folder.glob("*/server.py")})


def builtin_folder(kind: str, name: str) -> Path | None:
    """The folder of a built-in implementation, or None."""
    folders = (root / FOLDER_OF_KIND[kind] / name for root in _roots())
    return next((folder for folder in folders if (folder / "server.py").is_file()), None)


def builtin_path(text: str) -> Path | None:
    """A file of a built-in server, from NeMo Gym's spelling (`resources_servers/mcqa/data/example.jsonl`)."""
    parts = PurePosixPath(text).parts
    kind = _KIND_OF_PREFIX.get(parts[0]) if len(parts) > 2 else None
    if kind is None:
        return None
    candidates = (_server(root, kind, parts[1]).joinpath(*parts[2:]) for root in _roots())
    return next((path for path in candidates if path.is_file()), None)


def find_config(text: str) -> tuple[list[Path], list[Path]]:
    """Looks for a built-in configuration file.

    Takes NeMo Gym's paths (`resources_servers/mcqa/configs/mcqa.yaml`) and the short forms `resources/mcqa`,
    `mcqa` and `vllm_model/vllm_model_for_training`.

    Returns: the file of each kind of server that has one (more than one means an ambiguous name), and all the
    locations searched.
    """
    parts = PurePosixPath(text).parts
    if not parts or parts[0] == "/":
        return [], []
    kind = _KIND_OF_PREFIX.get(parts[0])
    if kind and len(parts) > 1:
        kinds, parts = [kind], parts[1:]
    elif text.endswith(_YAML_SUFFIXES):
        return [], []
    else:
        kinds = list(FOLDER_OF_KIND)
    found: list[Path] = []
    searched: list[Path] = []
    for kind in kinds:
        candidates = [
            path for root in _roots() for path in _config_files(_server(root, kind, parts[0]), parts[1:])
        ]
        searched += candidates
        found += [path for path in candidates if path.is_file()][:1]
    return found, searched


def modern_type_name(implementation: str) -> str:
    """Today's name of an implementation."""
    return RENAMED.get(implementation, implementation)


def modern_names(name: str) -> list[str]:
    """What an instance may be called today (`simple_weather_simple_agent` starts with an old name)."""
    names = [
        new + name[len(old) :] for old, new in RENAMED.items() if name == old or name.startswith(f"{old}_")
    ]
    return names + [other for other in _POLICY_NAMES if name in _POLICY_NAMES and other != name]


def _roots() -> list[Path]:
    spec = importlib.util.find_spec(NAMESPACE)
    return [Path(location) for location in (spec.submodule_search_locations if spec else None) or ()]


def _server(root: Path, kind: str, name: str) -> Path:
    return root / FOLDER_OF_KIND[kind] / modern_type_name(name)


def _config_files(folder: Path, rest: tuple[str, ...]) -> list[Path]:
    """Where the file named by the rest of a path may be in a server's folder, best first."""
    if rest[:1] == ("configs",):
        rest = rest[1:]
    if not rest:
        return [folder / "config.yaml"]
    *inner, last = rest
    name = last if last.endswith(_YAML_SUFFIXES) else f"{last}.yaml"
    files = [folder.joinpath("configs", *inner, name), folder.joinpath(*inner, name)]
    # NeMo Gym names a server's main file after the server; any other is a variant and must exist as such.
    if not inner and modern_type_name(Path(name).stem) == folder.name:
        files.append(folder / "config.yaml")
    return files
