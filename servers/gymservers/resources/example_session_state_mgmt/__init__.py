"""example_session_state_mgmt: a counter for each session."""
