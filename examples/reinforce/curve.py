"""The reward curve, as text and as a picture (SVG) that every browser shows."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["ascii_curve", "svg_curve"]

ROWS, COLUMNS = 10, 60
WIDTH, HEIGHT, MARGIN = 640, 360, 40


def ascii_curve(rewards: Sequence[float]) -> str:
    """The rewards from 0 to 1 over the steps, one character a column."""
    step = max(1, -(-len(rewards) // COLUMNS))
    means = [sum(part) / len(part) for i in range(0, len(rewards), step) if (part := rewards[i : i + step])]
    lines = []
    for row in range(ROWS, -1, -1):
        marks = "".join("*" if round(mean * ROWS) == row else " " for mean in means)
        lines.append(f"{row / ROWS:4.1f} |{marks}".rstrip())
    return "\n".join([*lines, f"     +{'-' * len(means)}", f"      step 1 to {len(rewards)}"])


def svg_curve(rewards: Sequence[float], title: str) -> str:
    """The same as an SVG document."""
    across, up = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN
    last = max(1, len(rewards) - 1)
    places = [(MARGIN + across * i / last, HEIGHT - MARGIN - up * mean) for i, mean in enumerate(rewards)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    grid = "".join(
        f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        f'<text x="{MARGIN - 8}" y="{y + 4:.1f}" text-anchor="end">{part / 5:.1f}</text>'
        for part in range(6)
        for y in [HEIGHT - MARGIN - up * part / 5]
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="#fff"/>{grid}'
        f'<text x="{WIDTH / 2}" y="22" text-anchor="middle">{title}</text>'
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 10}" text-anchor="middle">step (1 to {len(rewards)})</text>'
        f'<polyline points="{points}" fill="none" stroke="#1668b8" stroke-width="2"/></svg>\n'
    )
