from gymd.sdk import serve
from gymservers.resources.instruction_following.server import InstructionFollowing

serve(InstructionFollowing)
