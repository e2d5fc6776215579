"""reasoning_gym: puzzles of over a hundred kinds, made by seed and scored by the library that makes them."""

from gymd.sdk import serve
from gymservers.resources.reasoning_gym.server import ReasoningGym

serve(ReasoningGym)
