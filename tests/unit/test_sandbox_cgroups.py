"""Which control groups a job gets, on folders that look like those of the kernel."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gymd.sdk.sandbox import Limits, cgroups

LIMITS = Limits(memory_mb=100)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(cgroups, "_ROOT", tmp_path)
    cgroups._parents.cache_clear()
    yield tmp_path
    cgroups._parents.cache_clear()


def own_groups(monkeypatch: pytest.MonkeyPatch, **groups: str) -> None:
    """Where this process is: the group of each controller, and `all` for version 2."""
    found = {"" if name == "all" else name: path for name, path in groups.items()}
    monkeypatch.setattr(cgroups, "_own_groups", lambda: found)


def version_2(root: Path, controllers: str) -> Path:
    (root / "system.slice" / "gymd.service").mkdir(parents=True)
    (root / "system.slice" / "cgroup.subtree_control").write_text(controllers)
    return root / "system.slice"


def test_version_2_beside_our_own_group(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = version_2(root, "cpu memory pids\n")
    own_groups(monkeypatch, all="system.slice/gymd.service")
    group = cgroups.make_cgroup(LIMITS, 7)
    assert group is not None
    (folder,) = group.folders
    assert (group.version, folder.parent) == (2, parent)
    values = {path.name: path.read_text() for path in folder.iterdir()}
    assert values == {
        "memory.max": str(100 << 20),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": "7",
    }
    group.add(4711)
    assert (folder / "cgroup.procs").read_text() == "4711"
    (folder / "memory.events").write_text("low 0\noom 1\noom_kill 0\n")
    assert not group.out_of_memory()
    (folder / "memory.events").write_text("low 0\noom 1\noom_kill 2\n")
    assert group.out_of_memory()


def test_version_2_without_the_controllers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version_2(root, "cpu io\n")
    own_groups(monkeypatch, all="system.slice/gymd.service")
    assert cgroups.make_cgroup(LIMITS, 7) is None


def test_version_2_in_a_container_that_sees_its_own_group_only(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_groups(monkeypatch, all="")
    assert cgroups.make_cgroup(LIMITS, 7) is None


def test_version_1_below_our_own_groups(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "memory" / "box").mkdir(parents=True)
    (root / "pids").mkdir()
    own_groups(monkeypatch, memory="box", pids="", cpu="box", all="")
    group = cgroups.make_cgroup(LIMITS, 7)
    assert group is not None
    memory, pids = group.folders
    assert (group.version, memory.parent, pids.parent) == (1, root / "memory" / "box", root / "pids")
    assert (memory / "memory.limit_in_bytes").read_text() == str(100 << 20)
    assert (pids / "pids.max").read_text() == "7"
    (memory / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert group.out_of_memory()


def test_version_1_needs_both(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "memory").mkdir()
    own_groups(monkeypatch, memory="", cpu="")
    assert cgroups.make_cgroup(LIMITS, 7) is None


def test_what_a_dead_server_left_is_removed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = version_2(root, "memory pids")
    own_groups(monkeypatch, all="system.slice/gymd.service")
    dead, alive = parent / "gymd-sandbox-99999999-1", parent / "gymd-sandbox-1-1"
    dead.mkdir()
    alive.mkdir()
    cgroups.make_cgroup(LIMITS, 7)
    assert (dead.exists(), alive.exists()) == (False, True)


async def test_removal_waits_for_the_kernel(root: Path) -> None:
    """A group whose last process has just ended is busy for a moment."""
    folder = root / "busy"
    folder.mkdir()
    group = cgroups.Cgroup((folder, root / "gone"))
    group.discard()
    assert not folder.exists()
    await group.remove()  # what is gone is no error
