"""Leases, placeholders, drain and watches, on a clock that the test turns."""

import asyncio

import pytest

from gymapi.v1.registry_service_pb2 import (
    Placement,
    RegisterServerRequest,
    Server,
    ServerCapabilities,
    ServerKind,
    ServerState,
)
from gymd.daemon.registry import MAX_SERVERS, Registry
from gymd.errors import AlreadyExists, InvalidRequest, LimitReached, NotFound, NotReady, Unavailable

AGENT, MODEL = ServerKind.SERVER_KIND_AGENT, ServerKind.SERVER_KIND_MODEL
READY, UNHEALTHY = ServerState.SERVER_STATE_READY, ServerState.SERVER_STATE_UNHEALTHY
STARTING, FAILED = ServerState.SERVER_STATE_STARTING, ServerState.SERVER_STATE_FAILED
DRAINING = ServerState.SERVER_STATE_DRAINING


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def registry(clock: Clock) -> Registry:
    return Registry(default_ttl=10.0, clock=clock, wall=lambda: clock.now + 1e9)


def request(name: str = "calc", kind: int = AGENT, **fields: object) -> RegisterServerRequest:
    return RegisterServerRequest(name=name, kind=kind, address="127.0.0.1:1", **fields)


def only(registry: Registry, name: str = "calc") -> Server:
    (server,) = registry.servers(name)
    return server


class TestRegister:
    def test_first_registration_is_ready_and_named(self, registry: Registry, clock: Clock) -> None:
        answer = registry.register(request(capabilities=ServerCapabilities(link=True), pid=7))
        assert answer.lease_ttl.seconds == 10
        assert not answer.draining
        server = only(registry)
        assert (server.server_id, server.state, server.pid) == (answer.server_id, READY, 7)
        assert server.placement == Placement.PLACEMENT_REMOTE
        assert server.capabilities.link
        assert server.lease_expire_time.seconds == int(clock.now + 1e9) + 10
        assert registry.revision == 1

    @pytest.mark.parametrize(
        ("wrong", "field"),
        [
            (request(name=""), "name"),
            (request(name="a b"), "name"),
            (request(name="a" * 129), "name"),
            (request(kind=0), "kind"),
            (RegisterServerRequest(name="calc", kind=AGENT), "address"),
            (RegisterServerRequest(name="calc", kind=AGENT, address="localhost"), "address"),
        ],
    )
    def test_what_is_malformed_is_refused(
        self, registry: Registry, wrong: RegisterServerRequest, field: str
    ) -> None:
        with pytest.raises(InvalidRequest) as caught:
            registry.register(wrong)
        assert caught.value.metadata["field"] == field

    def test_another_kind_cannot_take_a_name(self, registry: Registry) -> None:
        registry.register(request())
        with pytest.raises(AlreadyExists) as caught:
            registry.register(request(kind=MODEL))
        assert caught.value.reason_name == "NAME_TAKEN"
        assert "agent" in str(caught.value)

    def test_replicas_share_a_name(self, registry: Registry) -> None:
        registry.register(request(host_id="a"))
        registry.register(request(host_id="b"))
        assert [server.host_id for server in registry.servers("calc")] == ["a", "b"]

    def test_registering_again_after_a_lost_answer_is_the_same_replica(self, registry: Registry) -> None:
        first = registry.register(request(host_id="a")).server_id
        assert registry.register(request(host_id="a")).server_id == first
        alone = registry.register(RegisterServerRequest(name="calc", kind=AGENT, address="h:2")).server_id
        again = registry.register(RegisterServerRequest(name="calc", kind=AGENT, address="h:2")).server_id
        assert alone == again != first

    def test_ttl_is_kept_in_bounds(self, registry: Registry) -> None:
        wish = request()
        wish.lease_ttl.seconds = 86400
        assert registry.register(wish).lease_ttl.seconds == 300
        wish.lease_ttl.seconds = 0
        assert registry.register(wish).lease_ttl.seconds == 1

    def test_there_is_a_limit(self, registry: Registry) -> None:
        for number in range(MAX_SERVERS):
            registry._add(Server(name=f"s{number}"), placeholder=False)
        with pytest.raises(LimitReached):
            registry.register(request())

    def test_not_ready_is_unhealthy_with_its_reason(self, registry: Registry) -> None:
        registry.register(request(ready=False, condition="no GPU"))
        assert (only(registry).state, only(registry).condition) == (UNHEALTHY, "no GPU")


class TestLease:
    def test_expires_in_two_steps(self, registry: Registry, clock: Clock) -> None:
        registry.register(request())
        assert registry.tick() == clock.now + 10
        clock.now += 9.9
        registry.tick()
        assert only(registry).state == READY
        clock.now += 0.1
        assert registry.tick() == clock.now + 10
        assert only(registry).state == UNHEALTHY
        assert "renew" in only(registry).condition
        clock.now += 10
        assert registry.tick() is None
        assert registry.servers() == []

    def test_a_time_in_which_nobody_could_renew_does_not_count(
        self, registry: Registry, clock: Clock
    ) -> None:
        registry.register(request())
        clock.now += 60
        registry.allow(55)
        registry.tick()
        assert only(registry).state == READY
        clock.now += 5
        registry.tick()
        assert only(registry).state == UNHEALTHY

    def test_renewal_keeps_and_heals(self, registry: Registry, clock: Clock) -> None:
        server_id = registry.register(request()).server_id
        before = registry.revision
        clock.now += 5
        registry.register(RegisterServerRequest(server_id=server_id))
        assert registry.revision == before, "a renewal that changes nothing is no change"
        clock.now += 10
        registry.tick()
        assert only(registry).state == UNHEALTHY
        registry.register(RegisterServerRequest(server_id=server_id, address="127.0.0.1:2"))
        assert (only(registry).state, only(registry).address) == (READY, "127.0.0.1:2")

    def test_renewal_of_what_left_says_so(self, registry: Registry, clock: Clock) -> None:
        server_id = registry.register(request()).server_id
        clock.now += 20
        registry.tick()
        with pytest.raises(NotFound, match="register anew"):
            registry.register(RegisterServerRequest(server_id=server_id))

    def test_renewal_cannot_change_the_name(self, registry: Registry) -> None:
        server_id = registry.register(request()).server_id
        with pytest.raises(InvalidRequest):
            registry.register(request(name="other", server_id=server_id))

    def test_deregister_removes_and_repeats(self, registry: Registry) -> None:
        server_id = registry.register(request()).server_id
        registry.deregister(server_id)
        registry.deregister(server_id)
        assert registry.servers() == []


class TestDrain:
    def test_by_name_and_by_id(self, registry: Registry) -> None:
        first = registry.register(request(host_id="a")).server_id
        registry.register(request(host_id="b"))
        (drained,) = registry.drain(server_id=first)
        assert drained.state == DRAINING
        assert len(registry.drain(name="calc")) == 2
        assert {server.state for server in registry.servers()} == {DRAINING}
        assert registry.register(RegisterServerRequest(server_id=first)).draining

    def test_unknown_names_get_the_nearest(self, registry: Registry) -> None:
        registry.register(request())
        with pytest.raises(NotFound, match="did you mean 'calc'"):
            registry.drain(name="clac")
        with pytest.raises(InvalidRequest):
            registry.drain()

    def test_one_drained_server_does_not_take_its_host_away(self, registry: Registry) -> None:
        drained = registry.register(request("a", host_id="h")).server_id
        registry.register(request("b", host_id="h"))
        registry.drain(name="a")
        assert not registry.register(RegisterServerRequest(server_id=drained)).draining
        registry.drain(name="b")
        assert registry.register(RegisterServerRequest(server_id=drained)).draining

    def test_shutdown_refuses_newcomers_and_tells_the_rest(self, registry: Registry) -> None:
        server_id = registry.register(request()).server_id
        registry.draining = True
        assert registry.register(RegisterServerRequest(server_id=server_id)).draining
        with pytest.raises(Unavailable):
            registry.register(request("new"))


class TestPlaceholders:
    def test_registration_attaches_and_a_crash_starts_over(self, registry: Registry) -> None:
        placeholder = registry.expect("calc", AGENT, Placement.PLACEMENT_SHARED, host_id="pool-0")
        assert only(registry).state == STARTING
        assert registry.register(request(host_id="pool-0", pid=5)).server_id == placeholder
        assert (only(registry).state, only(registry).placement) == (READY, Placement.PLACEMENT_SHARED)
        registry.rename_host("pool-0", "pool-0.1")
        registry.set_host("pool-0.1", STARTING, "crashed", restart_count=1)
        server = only(registry)
        assert (server.state, server.condition, server.restart_count) == (STARTING, "crashed", 1)
        assert (server.address, server.pid, server.host_id) == ("", 0, "pool-0.1")
        assert server.server_id != placeholder

    def test_a_process_on_its_way_out_cannot_come_back(self, registry: Registry) -> None:
        registry.expect("calc", AGENT, Placement.PLACEMENT_SHARED, host_id="pool-0")
        registry.rename_host("pool-0", "pool-0.1")
        with pytest.raises(Unavailable):
            registry.register(request(host_id="pool-0"))

    def test_one_server_of_a_host_can_fail(self, registry: Registry) -> None:
        for name in ("a", "b"):
            registry.expect(name, AGENT, Placement.PLACEMENT_SHARED, host_id="pool-0")
        registry.set_host("pool-0", FAILED, "no key", only=["a"])
        assert (only(registry, "a").state, only(registry, "b").state) == (FAILED, STARTING)

    def test_remote_is_matched_by_name_and_waits_again(self, registry: Registry, clock: Clock) -> None:
        registry.expect("calc", AGENT, Placement.PLACEMENT_REMOTE, condition="waiting for it to register")
        server_id = registry.register(request(host_id="far")).server_id
        assert len(registry.servers()) == 1
        registry.deregister(server_id)
        assert only(registry).state == STARTING
        assert "waiting" in only(registry).condition

    def test_a_supervised_host_that_hangs_is_reported(self, registry: Registry, clock: Clock) -> None:
        silent: list[str] = []
        registry.on_silent_host = silent.append
        registry.expect("calc", AGENT, Placement.PLACEMENT_PROCESS, host_id="calc-0")
        registry.register(request(host_id="calc-0"))
        clock.now += 20
        registry.tick()
        assert silent == ["calc-0"]
        assert only(registry).state == STARTING


class TestAgents:
    def test_the_only_agent_is_the_default(self, registry: Registry) -> None:
        assert registry.default_agent() == ""
        registry.register(request(host_id="a"))
        registry.register(request("llm", MODEL))
        assert registry.default_agent() == "calc"
        registry.register(request("other"))
        assert registry.default_agent() == ""

    def test_refusals(self, registry: Registry) -> None:
        registry.expect("calc", AGENT, Placement.PLACEMENT_SHARED, host_id="pool-0")
        assert registry.refusal("calc") is None, "it is starting: tasks wait for it"
        assert isinstance(registry.refusal("clac"), NotFound)
        registry.set_host("pool-0", FAILED, "no key")
        refusal = registry.refusal("calc")
        assert isinstance(refusal, NotReady)
        assert "no key" in str(refusal)
        registry.register(request(host_id="pool-0"))
        assert registry.refusal("calc") is None
        registry.drain(name="calc")
        refusal = registry.refusal("calc")
        assert refusal is not None
        assert refusal.reason_name == "DRAINING"


class TestWatch:
    async def test_snapshot_then_coalesced_changes(self, registry: Registry) -> None:
        registry.register(request())
        watcher = registry.subscribe()
        first = await watcher.get()
        assert first is not None
        assert first.snapshot
        assert (first.revision, len(first.servers)) == (1, 1)
        server_id = registry.register(request("b")).server_id
        registry.drain(name="b")
        registry.deregister(first.servers[0].server_id)
        change = await watcher.get()
        assert change is not None
        assert not change.snapshot
        assert change.revision == registry.revision
        assert [(server.server_id, server.state) for server in change.servers] == [(server_id, DRAINING)]
        assert list(change.removed_server_ids) == [first.servers[0].server_id]

    async def test_a_slow_watcher_gets_a_new_snapshot(self, registry: Registry) -> None:
        watcher = registry.subscribe(limit=3)
        await watcher.get()
        for number in range(5):
            registry.register(request(f"s{number}"))
        change = await watcher.get()
        assert change is not None
        assert change.snapshot
        assert len(change.servers) == 5

    async def test_kind_filter(self, registry: Registry) -> None:
        watcher = registry.subscribe(MODEL)
        registry.register(request())
        snapshot = await watcher.get()
        assert snapshot is not None
        assert not snapshot.servers
        registry.register(request("llm", MODEL))
        change = await watcher.get()
        assert change is not None
        assert [server.name for server in change.servers] == ["llm"]

    async def test_nothing_new_waits_and_close_ends(self, registry: Registry) -> None:
        watcher = registry.subscribe()
        await watcher.get()
        waiting = asyncio.ensure_future(watcher.get())
        await asyncio.sleep(0)
        assert not waiting.done()
        registry.close()
        assert await waiting is None
        registry.unsubscribe(watcher)

    def test_listeners_hear_everything(self, registry: Registry) -> None:
        heard: list[tuple[int, int]] = []
        registry.register(request())
        registry.listen(lambda servers, removed: heard.append((len(servers), len(removed))))
        registry.deregister(only(registry).server_id)
        assert heard == [(1, 0), (0, 1)]
