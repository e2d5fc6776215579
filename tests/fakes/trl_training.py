"""TRL on a real daemon and a tiny model, as a program of its own: warnings and threads stay there.

    python -m tests.fakes.trl_training exact|async MODEL ROWS ADDRESS PORT

Prints one line of JSON. `exact` compares what a rollout_func returns with the model's own probabilities;
`async` trains three steps with TRL's asynchronous trainer.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer, async_grpo_trainer, packing

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "trl"))
from gymd_trl import Source, make_rollout_func, read_rows
from gymd_worker import HoldingTransfer, RolloutWorker
from local_policy import LocalPolicy

MAX_TOKENS = 8
"""Of one answer; a rollout has several."""
STEPS = 3


def exact(model: str, rows: str, address: str, port: int) -> dict[str, Any]:
    """The largest difference between the logprobs of rollouts and those of a forward pass."""
    policy = load(model)
    tokenizer = AutoTokenizer.from_pretrained(model)
    server = LocalPolicy(policy, tokenizer, port=port)
    server.start()
    try:
        args = SimpleNamespace(temperature=1.0, top_p=1.0, max_completion_length=64)
        trainer = SimpleNamespace(args=args, processing_class=tokenizer)
        prompts = [row for row in read_rows(rows) for _ in range(4)]
        batch = make_rollout_func(Source(address, params={"max_output_tokens": MAX_TOKENS}))(prompts, trainer)
    finally:
        server.stop()
    worst, sampled, context = 0.0, 0, 0
    for prompt, completion, logprobs, mask in zip(
        *(batch[name] for name in ("prompt_ids", "completion_ids", "logprobs", "env_mask")), strict=True
    ):
        with torch.no_grad():
            logits = policy(torch.tensor([prompt + completion])).logits[0].float().log_softmax(-1)
        for place, (token, logprob, counts) in enumerate(zip(completion, logprobs, mask, strict=True)):
            if counts:
                expected = float(logits[len(prompt) + place - 1, token])
                worst = max(worst, abs(expected - logprob))
                sampled += 1
            else:
                context += 1
    rewards = batch["env_reward"]
    return {"worst": worst, "sampled": sampled, "context": context, "rewards": rewards}


def train_async(model: str, rows: str, address: str, port: int) -> dict[str, Any]:
    """Three steps of AsyncGRPOTrainer; the policy is a second copy of the model, which gets the weights."""
    # The attention kernel and the figures of the device need a GPU.
    packing._flash_attn = lambda: SimpleNamespace(flash_attn_varlen_func=attend)
    async_grpo_trainer.get_peak_flops_per_device = lambda accelerator, dtype: None
    served = load(model)
    server = LocalPolicy(served, AutoTokenizer.from_pretrained(model), port=port)
    server.start()
    config = AsyncGRPOConfig(
        output_dir=str(Path(rows).with_name("out")),
        num_generations=4,
        per_device_train_batch_size=4,
        max_steps=STEPS,
        max_staleness=2,
        token_budget=0,
        learning_rate=1e-2,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
    )
    lines = read_rows(rows)
    params = {"temperature": config.temperature, "max_output_tokens": MAX_TOKENS}
    worker = RolloutWorker(
        Source(address, params=params),
        lines,
        num_generations=config.num_generations,
        max_samples=8,
        max_staleness=config.max_staleness,
    )
    transfer = HoldingTransfer(server, worker)
    trainer = AsyncGRPOTrainer(
        model=model,
        args=config,
        train_dataset=Dataset.from_dict({"prompt": lines}),
        rollout_worker=worker,
        weight_transfer=transfer,
    )
    before = {name: value.detach().clone() for name, value in served.named_parameters()}
    trainer.train()
    trained = dict(trainer.accelerator.unwrap_model(trainer.model).named_parameters())
    return {
        "steps": trainer.state.global_step,
        "version": trainer.model_version,
        "moved": any(not torch.equal(value, before[name]) for name, value in served.named_parameters()),
        "same": all(torch.equal(value, trained[name]) for name, value in served.named_parameters()),
        "logs": [line for line in trainer.state.log_history if "loss" in line],
    }


def attend(
    query: Any, key: Any, value: Any, ends_q: Any, ends_k: Any, longest_q: int, longest_k: int, **options: Any
) -> Any:
    """What the attention kernel does, slowly: each segment sees its path, and itself causally."""
    parts = []
    for number in range(len(ends_q) - 1):
        q = query[ends_q[number] : ends_q[number + 1]].transpose(0, 1)
        k, v = (x[ends_k[number] : ends_k[number + 1]].transpose(0, 1) for x in (key, value))
        seen = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril(k.shape[1] - q.shape[1])
        mixed = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=seen, scale=options["softmax_scale"], enable_gqa=q.shape[0] != k.shape[0]
        )
        parts.append(mixed.transpose(0, 1))
    return torch.cat(parts)


def load(model: str) -> Any:
    """The model, for inference."""
    return AutoModelForCausalLM.from_pretrained(model).eval()


if __name__ == "__main__":
    what, model, rows, address, port = sys.argv[1:]
    work = {"exact": exact, "async": train_async}[what]
    sys.stdout.write(json.dumps(work(model, rows, address, int(port))) + "\n")
