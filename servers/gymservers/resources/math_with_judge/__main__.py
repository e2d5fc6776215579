from gymd.sdk import serve
from gymservers.resources.math_with_judge.server import MathWithJudge

serve(MathWithJudge)
