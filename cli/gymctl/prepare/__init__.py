"""`gymctl data prepare`: checks, measures and joins datasets, in memory that does not grow."""
