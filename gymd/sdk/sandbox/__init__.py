"""Runs untrusted code: bubblewrap, a system call filter, resource limits, a deadline.

    box = Sandbox.open()  # refuses, with the reason and what to do, where the kernel allows no isolation
    result = await box.run(["python3", "main.py"], files={"main.py": code}, limits=Limits(wall_s=5))

What a job gets: /workspace, or another `mount` (its files; gone afterwards unless it is a folder of yours),
/tmp, a read-only view of /usr and of this Python without its packages, no network, no other processes, no
capabilities, a user that is nobody. What it leaves running is killed.
"""

from gymd.sdk.sandbox.box import Level, Sandbox
from gymd.sdk.sandbox.limits import Limits, SandboxResult
from gymd.sdk.sandbox.process import SandboxProcess

__all__ = ["Level", "Limits", "Sandbox", "SandboxProcess", "SandboxResult"]
