"""The block of trainer_policy in a configuration; what it does is tested where it lives, in the daemon."""

import pydantic
import pytest

from gymd.daemon.policy import PolicySettings
from gymd.errors import NotReady
from gymd.sdk import testing
from gymservers.models.trainer_policy.server import TrainerPolicy, TrainerPolicyConfig


def test_the_daemon_reads_the_same_settings() -> None:
    def facts(config: type[pydantic.BaseModel]) -> dict[str, tuple[object, object]]:
        return {name: (field.annotation, field.default) for name, field in config.model_fields.items()}

    assert facts(PolicySettings) == facts(TrainerPolicyConfig)


async def test_no_host_serves_it() -> None:
    with pytest.raises(NotReady, match="the daemon serves trainer_policy itself"):
        async with testing.start_server(TrainerPolicy):
            pass
