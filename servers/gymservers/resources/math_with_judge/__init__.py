"""math_with_judge: mathematical answers, checked by math-verify and, if wanted, by a judge."""
