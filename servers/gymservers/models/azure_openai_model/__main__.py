"""Runs this server alone: `python -m gymservers.models.azure_openai_model --help`."""

from gymd.sdk import serve
from gymservers.models.azure_openai_model.server import AzureOpenAIModel

if __name__ == "__main__":
    serve(AzureOpenAIModel)
