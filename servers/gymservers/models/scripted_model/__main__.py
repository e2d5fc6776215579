"""Runs this server alone: `python -m gymservers.models.scripted_model --help`."""

from gymd.sdk import serve
from gymservers.models.scripted_model.server import ScriptedModel

if __name__ == "__main__":
    serve(ScriptedModel)
