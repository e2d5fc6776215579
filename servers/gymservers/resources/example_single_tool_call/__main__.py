from gymd.sdk import serve
from gymservers.resources.example_single_tool_call.server import Weather

serve(Weather)
