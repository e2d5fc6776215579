"""structured_outputs: an answer must be a document of a format that fits a schema."""

from gymd.sdk import serve
from gymservers.resources.structured_outputs.server import StructuredOutputs

serve(StructuredOutputs)
