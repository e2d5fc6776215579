"""`gymctl rollouts export`: training data of stored rollouts."""
