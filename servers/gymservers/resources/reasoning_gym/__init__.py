"""reasoning_gym: puzzles of over a hundred kinds, made by seed and scored by the library that makes them."""
