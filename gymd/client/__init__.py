"""The trainer's client: hand tasks to the daemon, get scored rollouts back.

    async with RolloutClient("127.0.0.1:50161", client_name="trainer-0") as client:
        async with client.session(credits=256) as session:
            async for result in session.run(submissions):
                ...

`Trainer` is the shorter way for trainers: their policy may live in the same process, and with a `resume_file`
they go on in a new one after a kill (gymd.client.trainer). `gymd.client.sync` is the same without async.

Every failed call raises a `gymd.errors.GymdError`; a task that the daemon refused, and a rollout that failed,
are data and never end the stream.
"""

from gymd.client.client import RolloutClient, Verifier
from gymd.client.groups import Group
from gymd.client.policy import GenerateCall, Generated, ToolCall
from gymd.client.session import RolloutSession
from gymd.client.sources import Rejection, deadlines
from gymd.client.trainer import Trainer

__all__ = [
    "GenerateCall",
    "Generated",
    "Group",
    "Rejection",
    "RolloutClient",
    "RolloutSession",
    "ToolCall",
    "Trainer",
    "Verifier",
    "deadlines",
]
