"""What `gymctl env examples` keeps of a rollout: nothing that differs from run to run."""

from gymctl.env.examples import _lasting


def test_times_are_left_out_and_all_else_stays_in_its_order() -> None:
    line = {
        "responses_create_params": {"input": "x"},
        "seconds": 5,  # the row's own
        "response": {"id": "resp_0-0/0_0", "created_at": 1.0},
        "tests": [{"ok": True, "wall_s": 0.1, "in": {"run_seconds": 2, "milliseconds_limit": 3}}],
        "total_seconds": 0.2,
        "reward": 1.0,
        "rollout": {
            "outcome": "completed",
            "timing": {"seconds": 0.5},
            "reward_extras": ["tests", "total_seconds"],
        },
    }
    assert list(_lasting(line).items()) == [
        ("responses_create_params", {"input": "x"}),
        ("seconds", 5),
        ("response", {"id": "resp_0-0/0_0", "created_at": 1.0}),
        ("tests", [{"ok": True, "in": {"milliseconds_limit": 3}}]),
        ("reward", 1.0),
        ("rollout", {"outcome": "completed", "reward_extras": ["tests", "total_seconds"]}),
    ]


def test_without_extras() -> None:
    assert _lasting({"reward": 1.0, "rollout": {"timing": {}}}) == {"reward": 1.0, "rollout": {}}
