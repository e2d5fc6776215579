"""`gymctl bench`: a trainer without GPUs, to see what a mesh can feed."""

from __future__ import annotations

from pathlib import Path

import click

from gymctl.bench.distributions import Distribution
from gymctl.errors import CliError
from gymctl.options import Settings, common

__all__ = ["bench"]


class DistributionType(click.ParamType):
    """A number, or a form such as lognormal:200:0.5."""

    name = "distribution"

    def convert(
        self, value: str | Distribution, param: click.Parameter | None, ctx: click.Context | None
    ) -> Distribution:
        if isinstance(value, Distribution):
            return value
        try:
            return Distribution.parse(value)
        except ValueError as problem:
            self.fail(str(problem), param, ctx)


DISTRIBUTION = DistributionType()


@click.command(short_help="Play a trainer without GPUs and measure what the mesh gives it.")
@click.option(
    "--steps", type=click.IntRange(1, 1_000_000), default=10, show_default=True, help="Trainer steps."
)
@click.option(
    "--groups-per-step",
    type=click.IntRange(1, 65_536),
    default=8,
    show_default=True,
    help="Groups of one batch.",
)
@click.option(
    "--group-size", type=click.IntRange(1, 65_536), default=8, show_default=True, help="Rollouts of a group."
)
@click.option(
    "--mode",
    type=click.Choice(["sync", "async"]),
    default="sync",
    show_default=True,
    help="sync: wait for the batch, train, update, ask for the next. async: batches are made ahead.",
)
@click.option(
    "--max-lag",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="With async: so many batches may be handed in beyond the one that is waited for.",
)
@click.option(
    "--step-time", type=click.FloatRange(0), default=1.0, show_default=True, help="Seconds of a trainer step."
)
@click.option(
    "--pause",
    type=click.FloatRange(0),
    default=0.2,
    show_default=True,
    help="Seconds of a weight update; nothing is handed in meanwhile.",
)
@click.option(
    "--update-every",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Steps from update to update.",
)
@click.option(
    "--prompt-tokens", type=DISTRIBUTION, default="256", show_default=True, help="Length of a first prompt."
)
@click.option(
    "--tokens",
    type=DISTRIBUTION,
    default="lognormal:200:0.5",
    show_default=True,
    help="Tokens that a model call generates.",
)
@click.option(
    "--latency",
    type=DISTRIBUTION,
    default="lognormal:1:0.3",
    show_default=True,
    help="Seconds of a model call.",
)
@click.option(
    "--turns", type=click.IntRange(1, 1000), default=2, show_default=True, help="Model calls of a rollout."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Chooses lengths and latencies.")
@click.option(
    "--in-flight",
    type=click.IntRange(min=1),
    metavar="N",
    help="Most rollouts in flight.  [default: as many as the mode hands in]",
)
@click.option(
    "--return-tokens/--no-return-tokens", default=True, show_default=True, help="Ask for ids and logprobs."
)
@click.option(
    "--address", metavar="HOST:PORT", help="Drive the mesh of this daemon, with the tasks of --input."
)
@click.option(
    "-c",
    "--config",
    "configs",
    multiple=True,
    metavar="FILE",
    help="Start a daemon with this configuration instead of the simulated model. Repeatable; needs --input.",
)
@click.option("-i", "--input", "source", metavar="FILE", help="Tasks as JSONL, used again from the start.")
@click.option("--agent", default="", metavar="NAME", help="Agent for rows without agent_ref.")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@common
@click.pass_obj
def bench(
    settings: Settings,
    steps: int,
    groups_per_step: int,
    group_size: int,
    mode: str,
    max_lag: int,
    step_time: float,
    pause: float,
    update_every: int,
    prompt_tokens: Distribution,
    tokens: Distribution,
    latency: Distribution,
    turns: int,
    seed: int,
    in_flight: int | None,
    return_tokens: bool,
    address: str | None,
    configs: tuple[str, ...],
    source: str | None,
    agent: str,
    overrides: tuple[str, ...],
) -> int:
    """Play a trainer without GPUs: hand in groups, wait for batches, "train" and update the weights.

    Without --address or --config it starts a daemon of its own with a simulated model, whose lengths and
    latencies are drawn by the seed, and stops it at the end. Lengths and latencies are a number, fixed:N,
    uniform:LOW:HIGH, exponential:MEAN or lognormal:MEDIAN:SIGMA. With --address or --config the tasks of
    --input run on real servers, and the options of the simulated model do nothing.

    Prints rollouts, tokens and groups per second, latencies from handing in to coming back, how long the
    trainer waited, staleness (updates of the policy between handing in and use), memory, and failures. Exits
    with 1 if a rollout was lost: refused, failed, or never came back.

    \b
    Examples:
      gymctl bench
      gymctl bench --mode async --max-lag 2 --group-size 16 --groups-per-step 32 --tokens lognormal:2000:0.8
      gymctl bench --address localhost:50161 --input tasks.jsonl --steps 5
      gymctl bench -o json gymd.pool_hosts=4
    """
    from gymctl.bench.trainer import Plan

    address = address or settings.address
    if address and configs:
        raise click.UsageError("--address and --config exclude each other.")
    if (address or configs) and not source:
        raise click.UsageError("--address and --config need tasks: name them with --input.")
    if source and not (address or configs):
        raise click.UsageError("--input needs servers that run its tasks: --address or --config.")
    if source and not Path(source).is_file():
        raise CliError(f"there is no file {source}", "Check the path given with --input.")
    plan = Plan(
        steps=steps,
        groups_per_step=groups_per_step,
        group_size=group_size,
        lag=max_lag if mode == "async" else 0,
        step_s=step_time,
        pause_s=pause,
        update_every=update_every,
    )

    # Here, so that the mistakes above are told at once.
    from gymctl.bench.command import Options, Simulated, bench_command

    model = Simulated(prompt_tokens, tokens, latency, turns, seed)
    options = Options(model, in_flight, return_tokens, address, configs, source, agent, overrides)
    return bench_command(plan, options, settings.output_format)
