from gymd.sdk import serve
from gymservers.resources.example_session_state_mgmt.server import Counter

serve(Counter)
