"""Runs this server alone: `python -m gymservers.models.vllm_model --help`."""

from gymd.sdk import serve
from gymservers.models.vllm_model.server import VLLMModel

if __name__ == "__main__":
    serve(VLLMModel)
