"""REINFORCE in plain numpy on a real environment: the policy is this process, the daemon runs the rest.

python examples/reinforce/train.py                       starts a daemon of its own
python examples/reinforce/train.py --address HOST:PORT   uses one that serves config.yaml
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from curve import ascii_curve, svg_curve
from policy import Policy, Sample
from questions import row

from gymd.client import Group, Trainer
from gymd.client.tokens import branches

HERE = Path(__file__).parent
LEARNING_RATE = 8.0
GOAL = 0.95
"""Training ends when the mean of the last five steps is this good."""


def main() -> None:
    """Trains and shows the curve."""
    parser = argparse.ArgumentParser(description="Learn multiple-choice questions by REINFORCE, in numpy.")
    parser.add_argument("--address", default="", help="a running daemon; by default one is started")
    parser.add_argument("--steps", type=int, default=150, help="most updates (default 150)")
    parser.add_argument("--tasks", type=int, default=16, help="questions in a step (default 16)")
    parser.add_argument("--rollouts", type=int, default=8, help="attempts at each question (default 8)")
    parser.add_argument("--seed", type=int, default=0, help="of questions and sampling (default 0)")
    parser.add_argument("--svg", type=Path, default=Path("reward.svg"), help="where the curve is written")
    options = parser.parse_args()
    begin = time.perf_counter()
    with contextlib.nullcontext(options.address) if options.address else daemon() as address:
        rewards = asyncio.run(train(address, options))
    seconds = time.perf_counter() - begin
    say(ascii_curve(rewards))
    options.svg.write_text(svg_curve(rewards, "mean reward per step, REINFORCE on mcqa"))
    last = rewards[-5:]
    say(f"from {rewards[0]:.3f} to {sum(last) / len(last):.3f} in {seconds:.1f} s; curve in {options.svg}")


def say(text: str) -> None:
    """Prints at once, also into a pipe."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def train(address: str, options: argparse.Namespace) -> list[float]:
    """The loop: sample groups under the present policy, take one step, again. Returns each step's mean."""
    policy, rng = Policy(options.seed), random.Random(options.seed)
    means: list[float] = []
    async with Trainer(address, policy=policy.generate, policy_version=0) as gym:
        for step in range(options.steps):
            rows = [row(rng) for _ in range(options.tasks)]
            samples: list[Sample] = []
            rewards: list[float] = []
            async for group in gym.groups(rows, n=options.rollouts):
                found = scores(group)
                rewards += found
                samples += as_samples(group, found)
            policy.update(samples, LEARNING_RATE)
            await gym.update_policy(step + 1)
            means.append(sum(rewards) / len(rewards))
            say(f"step {step + 1:3}  mean reward {means[-1]:.3f}  rollouts {len(rewards)}")
            if len(means) >= 5 and sum(means[-5:]) / 5 >= GOAL:
                break
    return means


def scores(group: Group) -> list[float]:
    """The rewards of a group; a rollout that nobody scored ends the training."""
    found = []
    for rollout in group.rollouts:
        if not rollout.HasField("reward"):
            raise SystemExit(f"rollout {rollout.rollout_id} failed: {rollout.failure.status.message}")
        found.append(rollout.reward.value)
    return found


def as_samples(group: Group, rewards: list[float]) -> list[Sample]:
    """What each rollout sampled, and how much better it was than the others of its group."""
    baseline = sum(rewards) / len(rewards)
    samples = []
    for rollout, reward in zip(group.rollouts, rewards, strict=True):
        for branch in branches(rollout):
            sampled = branch.sampled
            samples.append(
                Sample(
                    prompt_ids=branch.ids[: branch.prompt_length].tolist(),
                    sampled_ids=branch.ids[sampled].tolist(),
                    logprobs=branch.logprobs[sampled].tolist(),
                    advantage=reward - baseline,
                )
            )
    return samples


@contextlib.contextmanager
def daemon() -> Iterator[str]:
    """Runs `gymd` with config.yaml; yields its address. It ends with this process, however that ends."""
    with tempfile.TemporaryDirectory(prefix="gymd-reinforce-") as state:
        command = [sys.executable, "-m", "gymd", "-c", str(HERE / "config.yaml")]
        process = subprocess.Popen(
            [*command, "--wait-ready", "--stdin-lifeline"],
            env={**os.environ, "GYMD_STATE_DIR": state},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise SystemExit("the daemon did not start; it said why above")
            yield json.loads(line)["address"]
        finally:
            process.stdin.close()
            process.wait(30)
            process.stdout.close()


if __name__ == "__main__":
    main()
