"""The trainer's client: hand tasks to the daemon, get scored rollouts back.

    async with RolloutClient("127.0.0.1:50161", client_name="trainer-0") as client:
        async with client.session(credits=256) as session:
            async for result in session.run(submissions):
                ...

Every failed call raises a `gymd.errors.GymdError`; a task that the daemon refused, and a rollout that failed,
are data and never end the stream.
"""

from gymd.client.client import RolloutClient
from gymd.client.session import Rejection, RolloutSession, deadlines

__all__ = ["Rejection", "RolloutClient", "RolloutSession", "deadlines"]
