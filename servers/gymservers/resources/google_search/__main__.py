from gymd.sdk import serve
from gymservers.resources.google_search.server import GoogleSearch

serve(GoogleSearch)
