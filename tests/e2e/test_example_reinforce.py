"""examples/reinforce learns: a real daemon and environment, and a policy that starts with nothing."""

import re
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import pytest

TRAIN = Path(__file__).parents[2] / "examples" / "reinforce" / "train.py"
LIMIT_S = 300


@pytest.mark.timeout(LIMIT_S + 10)
def test_it_learns_from_rewards(tmp_path: Path) -> None:
    command = [sys.executable, str(TRAIN), "--seed", "0", "--svg", "curve.svg"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    means = [float(mean) for mean in re.findall(r"^step +\d+  mean reward (\d\.\d+)", done.stdout, re.M)]
    assert sum(means[:3]) / 3 < 0.3
    assert sum(means[-5:]) / 5 > 0.9, done.stdout
    assert "     +---" in done.stdout, "the curve is printed"
    points = xml.etree.ElementTree.parse(tmp_path / "curve.svg").getroot().find("{*}polyline")
    assert points is not None
    assert len(points.attrib["points"].split()) == len(means)
