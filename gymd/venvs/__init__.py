"""Virtual environments for servers that need packages of their own: what they need, and how uv builds them.

The daemon runs servers in them (`placement: venv`), and `gymctl env test` the tests of an environment.
"""

from gymd.venvs.build import Environments, VenvError, core_paths, find_uv
from gymd.venvs.requirements import Requirements, normalise, requirements_met, requirements_of

__all__ = [
    "Environments",
    "Requirements",
    "VenvError",
    "core_paths",
    "find_uv",
    "normalise",
    "requirements_met",
    "requirements_of",
]
