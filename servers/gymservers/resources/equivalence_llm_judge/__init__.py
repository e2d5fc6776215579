"""equivalence_llm_judge: short answers, compared with the expected ones by a judge."""
