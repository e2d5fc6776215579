"""Work on stored rollouts: profile tasks, sum up shards, score again."""
