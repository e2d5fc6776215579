"""Model server for OpenAI's Responses API and everything that speaks it."""
