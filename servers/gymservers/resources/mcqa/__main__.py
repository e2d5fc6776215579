from gymd.sdk import serve
from gymservers.resources.mcqa.server import MultipleChoice

serve(MultipleChoice)
