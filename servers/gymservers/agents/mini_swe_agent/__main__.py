from gymd.sdk import serve
from gymservers.agents.mini_swe_agent.server import MiniSweAgent

serve(MiniSweAgent)
