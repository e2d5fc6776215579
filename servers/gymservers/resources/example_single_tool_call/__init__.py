"""example_single_tool_call: a weather service with one tool."""
