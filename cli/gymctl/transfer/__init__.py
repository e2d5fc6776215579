"""`gymctl data download` and `gymctl data upload`: from and to Hugging Face, MLflow and GitLab."""
