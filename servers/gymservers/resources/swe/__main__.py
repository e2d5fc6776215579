from gymd.sdk import serve
from gymservers.resources.swe.server import SoftwareEngineering

serve(SoftwareEngineering)
