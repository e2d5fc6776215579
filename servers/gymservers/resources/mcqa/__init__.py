"""mcqa: multiple-choice questions, graded by the letter that the model chose."""
