"""Model server for vLLM and every engine with an OpenAI-compatible chat or completions API."""
