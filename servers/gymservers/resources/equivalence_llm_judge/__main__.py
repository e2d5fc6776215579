from gymd.sdk import serve
from gymservers.resources.equivalence_llm_judge.server import EquivalenceLLMJudge

serve(EquivalenceLLMJudge)
