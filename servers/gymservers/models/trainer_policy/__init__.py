"""Model server whose answers come from the trainer, over the stream on which it gets its rollouts."""
