"""Says that this server cannot run alone: the daemon serves it."""

from gymd.sdk import serve
from gymservers.models.trainer_policy.server import TrainerPolicy

if __name__ == "__main__":
    serve(TrainerPolicy)
