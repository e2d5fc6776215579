"""The block of trainer_policy in a configuration; what it does is tested where it lives, in the daemon."""

import pytest

from gymd.errors import NotReady
from gymd.sdk import testing
from gymservers.models.trainer_policy.server import TrainerPolicy


async def test_no_host_serves_it() -> None:
    with pytest.raises(NotReady, match="the daemon serves trainer_policy itself"):
        async with testing.start_server(TrainerPolicy):
            pass
