from gymd.sdk import serve
from gymservers.resources.workplace_assistant.server import WorkplaceAssistant

serve(WorkplaceAssistant)
