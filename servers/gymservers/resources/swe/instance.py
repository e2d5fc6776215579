"""A row: an instance of SWE-bench or SWE-Gym, or a small repository that the row itself holds."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pydantic

__all__ = ["Instance"]

# Both publish one image for each instance; the double underscore of an id is not allowed in a name.
_SWE_BENCH = ("swebench/sweb.eval.x86_64.", "_1776_")
_SWE_GYM = ("xingyaoww/sweb.eval.x86_64.", "_s_")
_MOST_FILES = 200


def _names(value: Any) -> Any:
    """SWE-bench's files hold these lists as JSON in a text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError("neither a list nor a list as JSON") from None


Tests = Annotated[tuple[str, ...], pydantic.BeforeValidator(_names)]


class Instance(pydantic.BaseModel):
    """The row's own fields; others are ignored."""

    model_config = pydantic.ConfigDict(frozen=True)

    instance_id: str = pydantic.Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")
    problem_statement: str = ""
    repo: str = ""
    version: str | None = None
    base_commit: str = ""
    patch: str = ""
    test_patch: str = ""
    FAIL_TO_PASS: Tests = ()
    PASS_TO_PASS: Tests = ()
    hints_text: str | None = None
    created_at: Any = None
    subset: str = ""
    split: str = ""

    image: str | None = pydantic.Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:@+-]*$")
    """Container image; None: by the naming rule of SWE-bench, or of SWE-Gym if `subset` says gym."""
    files: dict[str, str] = pydantic.Field(default_factory=dict, max_length=_MOST_FILES)
    """A repository in the row: contents by relative path. It becomes the one commit of a new repository."""
    test_command: str = ""
    """What runs the tests, for repositories that the harness does not know."""
    log_parser: str = ""
    """How its output is read: pytest, unittest, or the name of a parser of the harness."""
    eval_script: str = ""
    """A whole evaluation script, as SWE-bench's rows have it since version 5 of its package."""
    eval_type: Literal["", "pass_and_fail", "fail_only"] = ""

    @pydantic.field_validator("files")
    @classmethod
    def _inside(cls, files: dict[str, str]) -> dict[str, str]:
        for path in files:
            parts = path.split("/")
            if path.startswith("/") or "\0" in path or ".." in parts or ".git" in parts or "" in parts:
                raise ValueError(f"{path!r} is no relative path inside a repository")
        return files

    @pydantic.model_validator(mode="after")
    def _scored(self) -> Instance:
        if self.test_command and self.log_parser not in ("pytest", "unittest"):
            raise ValueError("a row with test_command needs log_parser: pytest or unittest")
        if self.eval_script and not self.log_parser:
            raise ValueError("a row with eval_script needs log_parser")
        return self

    @property
    def brings_files(self) -> bool:
        """Whether it needs no image: the repository is in the row."""
        return bool(self.files) and self.image is None

    @property
    def needs_harness(self) -> bool:
        """Whether only the package swebench knows how to test it or how to read the output."""
        return not self.test_command and self.log_parser not in ("pytest", "unittest")

    def values(self) -> dict[str, str]:
        """What a template for the name of an image or of a folder may name."""
        prefix, dashes = _SWE_GYM if "gym" in self.subset.lower() else _SWE_BENCH
        docker_id = self.instance_id.replace("__", dashes).lower()
        image = self.image or f"{prefix}{docker_id}:latest"
        return {"instance_id": self.instance_id, "docker_id": docker_id, "image": image}
