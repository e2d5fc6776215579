"""Runs this server alone: `python -m gymservers.models.openai_model --help`."""

from gymd.sdk import serve
from gymservers.models.openai_model.server import OpenAIModel

if __name__ == "__main__":
    serve(OpenAIModel)
