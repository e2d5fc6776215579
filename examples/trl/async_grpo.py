"""TRL's asynchronous GRPO on environments of gymd: rollouts go on while the trainer learns.

    python async_grpo.py --data tasks.jsonl --model Qwen/Qwen3-0.6B --vllm http://127.0.0.1:8000

The README beside this file says how the daemon and vLLM are started.
"""

from __future__ import annotations

import argparse

from datasets import Dataset
from gymd_trl import Source, read_rows
from gymd_worker import HoldingTransfer, RolloutWorker
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer


def main() -> None:
    """Trains."""
    options = parse()
    config = AsyncGRPOConfig(
        output_dir=options.output,
        num_generations=options.generations,
        per_device_train_batch_size=options.batch,
        gradient_accumulation_steps=options.accumulation,
        max_steps=options.steps,
        max_staleness=options.max_staleness,
        learning_rate=options.learning_rate,
        vllm_server_base_url=options.vllm,
        report_to=[],
    )
    rows = read_rows(options.data)
    params = {
        "temperature": config.temperature,
        "top_p": config.top_p,
        "max_output_tokens": options.max_tokens,
    }
    worker = RolloutWorker(
        Source(options.address, options.agent, params),
        rows,
        num_generations=config.num_generations,
        max_samples=samples_per_update(config) * max(1, config.max_staleness),
        max_staleness=config.max_staleness,
        queue_size=config.queue_maxsize,
        seed=config.seed,
    )
    trainer = AsyncGRPOTrainer(
        model=options.model,
        args=config,
        train_dataset=Dataset.from_dict({"prompt": rows}),
        rollout_worker=worker,
    )
    # The trainer made its own transfer to vLLM, which knows the names and shapes of its weights.
    if trainer.weight_transfer is not None:
        trainer.weight_transfer = HoldingTransfer(trainer.weight_transfer, worker)
    trainer.train()


def samples_per_update(config: AsyncGRPOConfig) -> int:
    """Samples that all processes use between two weight updates."""
    each = config.per_device_train_batch_size * config.gradient_accumulation_steps * config.world_size
    return int(each * config.weight_sync_steps)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Trains with TRL's asynchronous GRPO on rollouts of gymd.")
    parser.add_argument("--data", required=True, metavar="FILE", help="dataset rows as JSONL")
    parser.add_argument("--model", required=True, help="a name at the hub, or a folder")
    parser.add_argument("--vllm", required=True, metavar="URL", help="of vLLM, which gymd asks too")
    parser.add_argument("--output", default="async-grpo-out", metavar="DIR")
    parser.add_argument("--address", default="127.0.0.1:50161", help="of the daemon")
    parser.add_argument("--agent", default="", help="for rows without agent_ref")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--generations", type=int, default=8, help="rollouts of each row")
    parser.add_argument("--batch", type=int, default=8, help="samples of each process and micro-batch")
    parser.add_argument("--accumulation", type=int, default=1, help="micro-batches of a step")
    parser.add_argument("--max-staleness", type=int, default=4, help="weight updates that a sample may lag")
    parser.add_argument("--max-tokens", type=int, default=4096, help="of one answer of the model")
    parser.add_argument("--learning-rate", type=float, default=1e-6)
    return parser.parse_args()


if __name__ == "__main__":
    main()
