"""Ways to run a container: docker, podman, apptainer (singularity), or bubblewrap over a folder."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from gymd.errors import error
from gymservers.resources.swe.runtimes.apptainer import Apptainer
from gymservers.resources.swe.runtimes.base import Box, Finished, Machine, Runtime, Unusable
from gymservers.resources.swe.runtimes.engine import Engine
from gymservers.resources.swe.runtimes.folders import Folders

__all__ = ["Box", "Finished", "Images", "Machine", "Runtime", "RuntimeName", "find_runtimes"]

RuntimeName = Literal["auto", "docker", "podman", "apptainer", "singularity", "bubblewrap"]


class Images:
    """Where images come from.

    Args:
        template: names the image of an instance; None: as the row says.
        pull: whether an engine fetches images that are not there.
        cache_dir_template: names the image file (.sif) of an instance, for apptainer.
        image_dir: names the unpacked image or the repository of an instance, for bubblewrap.
    """

    def __init__(
        self, template: str | None, pull: bool, cache_dir_template: str | None, image_dir: str | None
    ) -> None:
        self.template, self.pull = template, pull
        self.cache_dir_template, self.image_dir = cache_dir_template, image_dir


async def find_runtimes(
    wanted: RuntimeName, machine: Machine, images: Images, *, allow_unsandboxed: bool
) -> tuple[Runtime, Folders | None]:
    """The runtime for images, and the one for rows that bring their files (None: not possible here).

    Raises:
        NotReady: there is none (SERVER_NOT_READY); the text says what was looked for, why each cannot be used
            and what to do.
    """

    async def folders() -> Folders:
        return await Folders.find(machine, images.image_dir, allow_unsandboxed=allow_unsandboxed)

    finders: dict[str, Callable[[], Awaitable[Runtime]]] = {
        "docker": lambda: Engine.find("docker", machine, images.template, images.pull),
        "podman": lambda: Engine.find("podman", machine, images.template, images.pull),
        "apptainer": lambda: Apptainer.find(machine, images.template, images.cache_dir_template),
        "bubblewrap": folders,
    }
    name = "apptainer" if wanted == "singularity" else wanted
    found, reasons = None, []
    for candidate in finders if name == "auto" else (name,):
        try:
            found = await finders[candidate]()
            break
        except Unusable as why:
            reasons.append(f"{candidate}: {why}")
    if found is None:
        raise _none(name, reasons)
    if isinstance(found, Folders):
        return found, found
    try:
        return found, await folders()
    except Unusable:
        return found, None


def _none(name: str, reasons: list[str]) -> Exception:
    looked = "docker, podman, apptainer and bubblewrap" if name == "auto" else name
    advice = "Install one of them" if name == "auto" else "Correct that, or set another `runtime` (auto: any)"
    why = ". ".join(reason.rstrip(".") for reason in reasons)
    text = (
        "swe runs a model's commands in containers, and no container runtime works here."
        f" Looked for {looked}. {why}. {advice}; see the README of swe"
    )
    return error("SERVER_NOT_READY", text, runtime=name)
