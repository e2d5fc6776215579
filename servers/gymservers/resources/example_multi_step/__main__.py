from gymd.sdk import serve
from gymservers.resources.example_multi_step.server import MultiNeedle

serve(MultiNeedle)
