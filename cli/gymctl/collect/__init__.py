"""What `gymctl rollouts collect` does: check the input, stream it to the daemon, write what comes back."""
