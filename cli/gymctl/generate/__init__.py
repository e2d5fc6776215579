"""The work behind `gymctl data generate`."""
