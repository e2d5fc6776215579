"""example_multi_step: look up values one by one, then hand them in, in order."""
