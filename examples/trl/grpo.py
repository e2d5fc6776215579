"""TRL's GRPOTrainer on environments of gymd.

    python grpo.py --data tasks.jsonl --model Qwen/Qwen3-0.6B --vllm http://127.0.0.1:8000
    python grpo.py --data tasks.jsonl --model ./tiny --serve 8000      # without vLLM: slow, for trying out

The README beside this file says how the daemon and vLLM are started.
"""

from __future__ import annotations

import argparse

import torch
from datasets import Dataset
from gymd_trl import Source, env_reward, make_rollout_func, read_rows
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer


def main() -> None:
    """Trains."""
    options = parse()
    source = Source(options.address, options.agent)
    config = GRPOConfig(
        output_dir=options.output,
        num_generations=options.generations,
        per_device_train_batch_size=options.batch,
        max_completion_length=options.max_tokens,
        max_steps=options.steps,
        learning_rate=options.learning_rate,
        logging_steps=1,
        report_to=[],
        bf16=torch.cuda.is_available(),
        use_cpu=not torch.cuda.is_available(),
        # With vLLM the trainer brings its new weights there before each call of the rollout_func.
        use_vllm=options.vllm is not None,
        vllm_mode="server",
        vllm_server_base_url=options.vllm,
    )
    trainer = GRPOTrainer(
        model=options.model,
        args=config,
        train_dataset=Dataset.from_dict({"prompt": read_rows(options.data)}),
        reward_funcs=env_reward,
        rollout_func=make_rollout_func(source),
        processing_class=AutoTokenizer.from_pretrained(options.model),
    )
    if options.serve is None:
        trainer.train()
        return
    from local_policy import LocalPolicy

    policy = LocalPolicy(trainer.model, trainer.processing_class, port=options.serve)
    policy.start()
    try:
        trainer.train()
    finally:
        policy.stop()


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Trains a model with TRL's GRPOTrainer on rollouts of gymd.")
    parser.add_argument("--data", required=True, metavar="FILE", help="dataset rows as JSONL")
    parser.add_argument("--model", required=True, help="a name at the hub, or a folder")
    parser.add_argument("--output", default="grpo-out", metavar="DIR")
    parser.add_argument("--address", default="127.0.0.1:50161", help="of the daemon")
    parser.add_argument("--agent", default="", help="for rows without agent_ref")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--generations", type=int, default=8, help="rollouts of each row")
    parser.add_argument("--batch", type=int, default=8, help="rollouts of each process and step")
    parser.add_argument("--max-tokens", type=int, default=4096, help="most tokens after the prompt")
    parser.add_argument("--learning-rate", type=float, default=1e-6)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--vllm", metavar="URL", help="of the vLLM server that gymd's model server asks")
    where.add_argument("--serve", type=int, metavar="PORT", help="serve the trainer's own model there")
    return parser.parse_args()


if __name__ == "__main__":
    main()
