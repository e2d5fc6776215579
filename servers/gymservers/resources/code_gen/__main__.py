from gymd.sdk import serve
from gymservers.resources.code_gen.server import CodeGen

serve(CodeGen)
