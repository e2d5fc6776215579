"""Runs this server alone: `python -m gymservers.models.local_model --help`."""

from gymd.sdk import serve
from gymservers.models.local_model.server import LocalModel

if __name__ == "__main__":
    serve(LocalModel)
