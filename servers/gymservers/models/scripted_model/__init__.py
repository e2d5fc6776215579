"""Model server that answers by rules: for tests, demonstrations and capacity measurement."""
