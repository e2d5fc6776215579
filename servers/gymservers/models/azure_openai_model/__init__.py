"""Model server for deployments of Azure OpenAI."""
