"""What `gymctl rollouts collect` does: check the input, stream it through the daemon, write what comes back."""
