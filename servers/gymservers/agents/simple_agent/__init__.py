"""simple_agent: the standard loop of model calls and tool calls."""
