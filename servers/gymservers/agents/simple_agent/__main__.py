from gymd.sdk import serve
from gymservers.agents.simple_agent.server import SimpleAgent

serve(SimpleAgent)
