"""How the thread's time is shared: by weights, in seconds of work, without anybody starving."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kapi.process.shares import MAX_SECONDS, Flow, Level, Shares
from tests.examples import examples


class Busy:
    """A client that has ``count`` pieces of work ready at any time; each takes ``cost`` seconds."""

    def __init__(self, flow: Flow, cost: float) -> None:
        self.flow = flow
        self.cost = cost
        self.served = 0.0

    def __call__(self) -> None:
        """The thread below does it."""


class Thread:
    """The one that all work is done on."""

    def __init__(self) -> None:
        self.shares = Shares()
        self.now = 0.0

    def add(self, flow: Flow, cost: float, count: int = 1) -> list[Busy]:
        made = [Busy(flow, cost) for _ in range(count)]
        for worker in made:
            self.shares.add(worker, flow)
        return made

    def step(self) -> Busy:
        worker, flow = self.shares.take()
        assert isinstance(worker, Busy)
        self.now += worker.cost
        worker.served += worker.cost
        self.shares.charge(flow, worker.cost)
        return worker

    def work(self, seconds: float) -> None:
        """Who was served has more to do."""
        end = self.now + seconds
        while self.now < end:
            worker = self.step()
            self.shares.add(worker, worker.flow)


def total(workers: list[Busy]) -> float:
    return sum(worker.served for worker in workers)


def test_levels_share_by_their_weights_and_not_by_what_they_send() -> None:
    thread = Thread()
    low, high, exempt = Level("low", 100), Level("high", 40), Level("exempt", 420)
    crowd = thread.add(Flow(low), 0.0003, 100)
    some = thread.add(Flow(high), 0.001, 10)
    one = thread.add(Flow(exempt), 0.002)
    thread.work(10)
    for workers, weight in ((crowd, 100), (some, 40), (one, 420)):
        assert abs(total(workers) / 10 / (weight / 560) - 1) < 0.2


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 100), st.lists(st.sampled_from([0.0002, 0.0005, 0.001, 0.003]), min_size=1, max_size=4)
        ),
        min_size=1,
        max_size=5,
    )
)
def test_whoever_is_busy_gets_his_share(levels: list[tuple[int, list[float]]]) -> None:
    """However much longer one's pieces are than another's, all shares are within 20 % or what a few pieces make up."""
    thread = Thread()
    flows = []
    for number, (weight, costs) in enumerate(levels):
        level = Level(str(number), weight)
        flows += [(weight / len(costs), thread.add(Flow(level), cost, 3), cost) for cost in costs]
    thread.work(10)
    weights = sum(weight for weight, _, _ in flows)
    for weight, workers, cost in flows:
        due = thread.now * weight / weights
        assert abs(total(workers) - due) <= 0.2 * due + 3 * cost


def test_flows_of_a_level_share_equally_whatever_they_keep_in_flight() -> None:
    thread, level = Thread(), Level("workload-low", 100)
    crowd, one = thread.add(Flow(level), 0.0003, 100), thread.add(Flow(level), 0.001)
    thread.work(5)
    assert abs(total(one) / total(crowd) - 1) < 0.2


def test_the_lightest_level_is_served_beside_the_heaviest() -> None:
    thread = Thread()
    thread.add(Flow(Level("exempt", 1800)), 0.001, 50)
    light = thread.add(Flow(Level("catch-all", 13)), 0.001)
    thread.work(10)
    assert total(light) >= 0.8 * 10 * 13 / 1813


def test_who_asks_for_less_than_his_share_is_next() -> None:
    """A lease that is renewed now and then waits for the piece that is under way, in whatever level the crowd is."""
    thread = Thread()
    leases = Level("leader-election", 25)
    for level in (Level("workload-low", 245), Level("exempt", 1800), Level("global-default", 49)):
        thread.add(Flow(level), 0.001, 30)
    thread.work(5)
    flow = Flow(leases)
    for _ in range(200):
        thread.work(0.1)
        (renewal,) = thread.add(flow, 0.001)
        assert thread.step() is renewal


def test_what_was_left_unused_is_gone() -> None:
    thread, level = Thread(), Level("low", 100)
    thread.add(Flow(level), 0.001, 10)
    late, later = Flow(level), Flow(Level("high", 100))
    thread.work(100)
    mine, others = thread.add(late, 0.001), thread.add(later, 0.001)
    thread.work(1)
    assert total(mine) <= 1 / 4 + 0.02
    assert total(others) <= 1 / 2 + 0.02


def test_one_long_piece_does_not_shut_its_flow_out() -> None:
    thread, level = Thread(), Level("low", 100)
    (long,) = thread.add(Flow(level), 60.0)
    thread.add(Flow(level), 0.001, 10)
    while thread.step() is not long:
        pass
    long.cost = 0.001
    thread.shares.add(long, long.flow)
    before = thread.now
    while thread.step() is not long:
        thread.add(Flow(level), 0.001)
    assert thread.now - before <= 6 * MAX_SECONDS


def test_equals_are_served_in_the_order_in_which_they_came() -> None:
    thread, level = Thread(), Level("low", 100)
    workers = [thread.add(Flow(level), 0.0)[0] for _ in range(5)]
    assert [thread.step() for _ in range(5)] == workers
    assert not thread.shares
