"""gymctl: the command line of gymd."""
