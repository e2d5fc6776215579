"""mini_swe_agent: the package mini-swe-agent, with the mesh's model and the containers of swe."""
