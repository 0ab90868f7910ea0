"""Scale of the control plane: rows by hand, walls that never move away from a growing load, and the command."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from burstcache.adapters import clock, hot_keys, use_table
from burstcache.control import use_scheduler
from burstcache.core.node_use import MAX_LOADS, MAX_SEEN
from burstcache_cli.cli import main
from burstcache_sim.scale.change_log import most_changes_per_s, most_written_per_s, replay_log
from burstcache_sim.scale.items import (
    KEYS_PER_SHARD,
    LOAN,
    MOST_IN_BANK,
    REPORTS,
    digest_bytes,
    digest_read_units,
    start_write_units,
    use_bytes,
)
from burstcache_sim.scale.load import (
    DIMENSIONS,
    ORIGIN_BATCH,
    ORIGIN_CONCURRENCY,
    REGIONS,
    TEMPLATE_HIT_VALUE_USD,
    TEMPLATE_MAX_HOT_KEYS,
    TEMPLATE_THROTTLE_PER_S,
    Quotas,
    StackLoad,
)
from burstcache_sim.scale.losses import evenly_refused_share, refused_share, used_at_first_losses
from burstcache_sim.scale.reading import function_units
from burstcache_sim.scale.retries import ATTEMPTS, FIRST_PAUSE_S, contend, most_reports_per_s, most_writers_per_s, pend
from burstcache_sim.scale.wall import IN_USE, Wall
from burstcache_sim.scale.walls import first_wall, sweep, walls_of
from support.project import ROOT

_OPEN = 1_000_000  # a throttle that no load reaches
_POLICIES = ("thesis", "breakeven", "hazard")


def by_part(load: StackLoad) -> dict[str, Wall]:
    """Return the walls by name."""
    walls = walls_of(load)
    named = {wall.part: wall for wall in walls}
    assert len(named) == len(walls)
    return named


def test_reads_by_the_http_api_take_the_units_of_concurrency_that_littles_law_has() -> None:
    walls = by_part(StackLoad(keys=10, reads_per_s=10_000, writes_per_s=0, nodes=0))

    assert (walls["HTTP API, throttle of the stage"].load, walls["HTTP API, throttle of the stage"].limit) == (
        10_000,
        25,
    )
    assert walls["HTTP APIs of the region"].used == 1
    assert walls["Lambda, synchronous invocations"].used == 1
    assert walls["Lambda, concurrent executions"].load == pytest.approx(600)  # 10,000/s of 60 ms
    assert walls["Lambda, new environments"].load == pytest.approx(600)
    assert walls["S3 GET, one prefix"].used == pytest.approx(10_000 / 5_500)


def test_readers_with_the_library_do_not_meet_the_front_door() -> None:
    parts = by_part(StackLoad(readers=10, reads_per_s=100_000))

    assert [part for part in parts if part.startswith(("HTTP", "Lambda, synchronous"))] == []
    assert parts["Lambda, concurrent executions"].effect == "late"


def test_each_function_holds_units_of_its_own() -> None:
    load = StackLoad(
        reads_per_s=100, writes_per_s=1_000, policy="thesis", relay="direct", max_hot_keys=5, keys=1_000_000
    )

    units = function_units(load)

    assert units["proxy"] == pytest.approx(6)
    assert units["scheduler"] == pytest.approx(2)  # an event a read, 20 ms each
    assert units["origin"] == units["control"] == 2  # the queue's bound
    assert units["cache"] == 5
    assert by_part(load)["Lambda, concurrent executions"].load == pytest.approx(17)


def test_the_digest_is_queried_by_each_reader_every_second_and_a_half() -> None:
    load = StackLoad(readers=300, reads_per_s=3_000)

    # The log of changes and a node: less than 4 KB.
    assert by_part(load)["DynamoDB, digest, reads"].load == 300 / 1.5
    # A route is an item of 120 bytes. Readers without memory pay half.
    hot = digest_bytes(routes=1_000, nodes=0, on_nodes=False)
    assert hot == 1_000 * 120
    assert (digest_read_units(hot, is_consistent=True), digest_read_units(hot, is_consistent=False)) == (30, 15)


def test_idle_readers_query_nothing() -> None:
    assert by_part(StackLoad(readers=3_000, reads_per_s=1))["DynamoDB, digest, reads"].load == 1


@pytest.mark.parametrize(("max_hot_keys", "units"), [(2, 2), (28, 2), (29, 2.5), (250, 2.5), (5_000, 2.5)])
def test_a_start_writes_a_shard_twice_and_an_eighth_of_a_loan(max_hot_keys: int, units: float) -> None:
    assert start_write_units(max_hot_keys) == units


def test_the_set_of_started_keys_takes_400_starts_a_second() -> None:
    load = StackLoad(policy="thesis", keys=1_000_000, reads_per_s=100_000, max_hot_keys=4_000)
    writes = by_part(load)["DynamoDB, started keys"]

    assert writes.used == 1  # all start within the threshold of 10 s
    assert writes.load == 400 * 2.5


def test_hot_keys_are_at_most_those_that_the_reads_suffice_for() -> None:
    assert StackLoad(policy="thesis", keys=1_000, reads_per_s=10).hot_keys == 50  # two within ten seconds each
    assert StackLoad(policy="thesis", keys=20, reads_per_s=10).hot_keys == 20
    assert StackLoad(policy="breakeven", relay="none").hot_keys == 0
    assert StackLoad(policy="breakeven", relay="nlb", reads_per_s=1).hot_keys == pytest.approx(3, rel=0.001)


def test_reports_come_once_in_ten_seconds_from_each_reader() -> None:
    load = StackLoad(readers=200, reads_per_s=10_000)

    assert load.reports_per_s == 20
    assert by_part(load)["DynamoDB, use of a node"].load == 20
    assert replace(load, policy="thesis").reports_per_s == 200
    assert replace(load, nodes=0).reports_per_s == 0


def test_seen_keys_fill_the_partition_of_one_node() -> None:
    part = "DynamoDB, a node's seen keys"

    assert by_part(StackLoad(keys=10_000, reads_per_s=5_000))[part].used == 1
    assert by_part(StackLoad(keys=1_000_000, reads_per_s=5_000))[part].load == 5_000
    assert by_part(StackLoad(keys=1_000_000, reads_per_s=5_000, nodes=8))[part].load == 625


def test_a_boot_looks_at_20000_rows_and_loads_2000_objects() -> None:
    walls = by_part(StackLoad(keys=100_000))

    assert walls["a boot, objects"].used == 50
    assert walls["a boot, rows"].used == 5
    assert (MAX_LOADS, MAX_SEEN) == (2_000, 20_000)


def test_changes_outrun_the_log_of_the_digest() -> None:
    walls = by_part(StackLoad(writes_per_s=100))

    # An entry of one key takes 12 bytes and each append writes all of them, in half of an item's 1,000 units a second:
    # at 125 a second the log keeps 4 KB, 341 entries, the last 2.7 s. A digest may be 2 s old.
    assert replay_log(125).covers_s == pytest.approx(512_000 / 12 / 125**2, abs=0.1)
    assert 125 < walls["digest's log, reach"].limit < 150
    assert walls["digest's log, reach"].used == 100 / most_changes_per_s()
    # Ten keys in an announcement take a tenth of the appends, and 66 bytes.
    assert most_changes_per_s(keys_per_append=10) > 3 * most_changes_per_s()


def test_an_upload_takes_two_units_by_the_queue_and_those_of_all_its_events_without_it() -> None:
    upload = StackLoad(reads_per_s=4, writes_per_s=170, nodes=0, quotas=Quotas(concurrency=10))
    queued, direct = by_part(upload), by_part(replace(upload, origin_events="direct"))

    assert queued["Lambda, concurrent executions"].load == pytest.approx(0.24 + 2)
    assert queued["S3's events, queue"].is_reached
    assert direct["Lambda, concurrent executions"].load == pytest.approx(0.24 + 10.2)  # 60 ms each
    assert direct["Lambda, concurrent executions"].is_reached
    assert "S3's events, queue" not in direct


def test_few_changes_take_a_unit_each_and_many_the_whole_item() -> None:
    assert replay_log(10).units_per_s == pytest.approx(10, rel=0.2)
    assert replay_log(100).units_per_s > 500
    assert most_changes_per_s() < most_written_per_s(1_000) < 1_000
    assert replay_log(most_written_per_s(1_000)).units_per_s <= 1_000


def test_the_queue_follows_fewer_changes_than_the_log_has_room_for() -> None:
    assert most_changes_per_s(keys_per_append=10) > StackLoad().followed_per_s


def test_parameters_are_read_by_readers_that_start() -> None:
    part = "SSM GetParameter"

    assert by_part(StackLoad(readers=400, reads_per_s=10_000))[part].used == 1
    assert by_part(StackLoad(readers=400, reads_per_s=10_000, relay="direct"))[part].used == 2
    assert part not in by_part(StackLoad(readers=400, nodes=0))


def test_nodes_take_vcpus_memory_and_bandwidth() -> None:
    ec2 = by_part(StackLoad(node="t4g.micro", nodes=8, readers=8, reads_per_s=8_000, object_bytes=10_000))
    tasks = by_part(StackLoad(node="fargate-spot:16GB", nodes=4))

    assert (ec2["EC2 on-demand vCPUs"].load, ec2["EC2 on-demand vCPUs"].is_reached) == (16, True)
    assert ec2["a node's network, sustained"].used == pytest.approx(80 / 64)
    assert ec2["a node's processor"].limit == 4_000  # two tenths of a vCPU
    assert (tasks["Fargate Spot vCPUs"].load, tasks["Fargate on-demand vCPUs"].load) == (8, 8)
    assert "a node's network, sustained" not in tasks  # AWS does not document it


def test_a_relay_and_cache_functions_have_walls_of_their_own() -> None:
    walls = by_part(StackLoad(relay="nlb", max_hot_keys=300, reads_per_s=1_000, object_bytes=1_000_000))

    assert walls["cache function of the most-read key"].load == 100
    assert walls["relay, a quarter of a vCPU"].used == pytest.approx(0.4)
    assert (walls["`MaxHotKeys` beside reads"].limit, walls["`MaxHotKeys` beside reads"].is_reached) == (250, True)


def test_one_row_takes_as_many_writers_as_the_retries_of_the_scheduler_suffice_for() -> None:
    """Compare with the table of the review that found it: 3 % given up at 25 a second, 30 % at 50, 62 % at 100."""
    shares = {rate: contend(rate).given_up_share for rate in (10, 25, 50, 100)}

    assert shares[10] == 0
    assert 0.005 < shares[25] < 0.06
    assert 0.2 < shares[50] < 0.4
    assert 0.5 < shares[100] < 0.7
    assert 15 <= most_writers_per_s() <= 25
    assert most_writers_per_s(window_s=0.01) > 2 * most_writers_per_s()


def test_reports_that_lose_a_race_stay_pending_and_cost_units() -> None:
    alone, crowd = pend(0.01, length_s=10_000), pend(200)

    assert (alone.lost, alone.units) == (0, alone.reports)  # a unit each
    assert crowd.lost > crowd.reports / 2
    assert crowd.units == pytest.approx(9_662, rel=0.01)  # in ten seconds
    assert 100 < most_reports_per_s(1_000) <= 240
    assert most_reports_per_s(1_000, window_s=0.01) > most_reports_per_s(1_000)
    assert use_bytes(1) - use_bytes(0) == len("pending") + 8 + 15 * 16  # 15 merged repeats of 7 and fewer


@pytest.mark.parametrize(("offered", "units", "share"), [(10, 10, 0.2146), (5, 10, 0.0184), (1, 1, 0.5), (0, 10, 0)])
def test_random_arrivals_are_refused_by_erlangs_formula(offered: float, units: int, share: float) -> None:
    assert refused_share(offered, units) == pytest.approx(share, rel=0.01)


def test_arrivals_evenly_apart_are_refused_beyond_all_units() -> None:
    assert [evenly_refused_share(offered, 10) for offered in (0, 9.9, 10, 20)] == [0, 0, 0, 0.5]
    assert evenly_refused_share(10.1, 10) == evenly_refused_share(11, 10) == pytest.approx(1 / 11)


def test_few_units_lose_random_arrivals_earlier() -> None:
    assert used_at_first_losses(10) == pytest.approx(0.446, abs=0.001)
    assert used_at_first_losses(1_000) == pytest.approx(0.971, abs=0.001)


def test_many_units_refuse_nearly_nothing_below_their_limit() -> None:
    assert refused_share(600, 1_000) < 1e-40
    assert refused_share(2_000, 1_000) == pytest.approx(0.5, rel=0.01)


def test_a_writer_alone_needs_one_attempt() -> None:
    contention = contend(0.01, length_s=10_000)

    assert contention.attempts == contention.written > 50
    assert contention.given_up == 0


_LOADS = st.builds(
    StackLoad,
    keys=st.integers(1, 1_000_000),
    reads_per_s=st.floats(0.01, 100_000),
    readers=st.integers(0, 100_000),
    writes_per_s=st.floats(0, 10_000),
    policy=st.sampled_from(_POLICIES),
    relay=st.sampled_from(["none", "direct", "nlb"]),
    nodes=st.integers(0, 8),
    node=st.sampled_from(["t4g.micro", "r7g.large", "fargate-spot:2GB", "fargate:120GB"]),
    max_hot_keys=st.integers(1, 20_000),
    throttle_per_s=st.sampled_from([25, _OPEN]),
    quotas=st.builds(Quotas, concurrency=st.sampled_from([10, 1_000, 10_000])),
)
_GROWS = {
    "keys": lambda load, times: round(load.keys * times) + 1,
    "reads_per_s": lambda load, times: load.reads_per_s * times,
    "readers": lambda load, times: round(load.readers * times),
    "writes_per_s": lambda load, times: load.writes_per_s * times,
}


@given(load=_LOADS, name=st.sampled_from(sorted(_GROWS)), times=st.floats(1, 1_000))
def test_a_larger_load_is_never_further_from_a_wall(load: StackLoad, name: str, times: float) -> None:
    grown = replace(load, **{name: _GROWS[name](load, times)})
    before, after = by_part(load), by_part(grown)

    assert list(before) == list(after)
    assert [part for part in before if after[part].used < before[part].used * (1 - 1e-9)] == []
    for effect in (None, *IN_USE):
        first, first_after = first_wall(before.values(), effect), first_wall(after.values(), effect)
        assert first is None or (first_after is not None and first_after.used >= first.used * (1 - 1e-9))


@given(load=_LOADS)
def test_a_wall_is_reached_exactly_beyond_its_limit(load: StackLoad) -> None:
    for wall in walls_of(load):
        assert wall.limit > 0
        assert wall.is_reached == (wall.load > wall.limit)
        assert wall.beyond
        assert wall.raise_by


def test_what_no_load_moves_is_the_first_wall_only_if_it_is_exceeded() -> None:
    idle = StackLoad(keys=1, reads_per_s=0.01, writes_per_s=0)

    assert "execution" not in str(first_wall(walls_of(idle)))
    first = first_wall(walls_of(replace(idle, nodes=8, node="fargate-spot:120GB")))
    assert first is not None
    assert first.part == "Fargate Spot vCPUs"


@pytest.mark.parametrize("dimension", sorted(DIMENSIONS))
def test_a_sweep_grows_tenfold(dimension: str) -> None:
    steps = sweep(StackLoad(throttle_per_s=_OPEN), dimension)

    assert [b.value / a.value for a, b in itertools.pairwise(steps)] == [10] * (len(steps) - 1)
    assert steps[-1].value == DIMENSIONS[dimension]
    assert len({step.load for step in steps}) == len(steps)


def test_stacks_share_what_is_their_own_and_not_what_is_the_accounts() -> None:
    load = StackLoad(
        keys=100_000, readers=100, reads_per_s=10_000, writes_per_s=100, policy="thesis", max_hot_keys=5_000
    )
    one, ten = by_part(load), by_part(replace(load, stacks=10))

    for part in ("digest's log, reach", "DynamoDB, row of the most-read key", "a node's processor"):
        assert ten[part].load == pytest.approx(one[part].load / 10)
    for part in ("EventBridge, deliveries", "S3's events, queue"):
        assert ten[part].scope == one[part].scope
    assert ten["Fargate Spot vCPUs"].load == 10 * one["Fargate Spot vCPUs"].load  # each stack has its nodes
    assert ten["SSM GetParameter"].load == 100  # each reader reads those of each stack
    hot_everywhere = replace(load, reads_per_s=1_000)  # 5,000 keys of the one stack, 500 of each of ten
    one, ten = by_part(hot_everywhere), by_part(replace(hot_everywhere, stacks=10))
    assert one["DynamoDB, digest, reads"].load > 9 * ten["DynamoDB, digest, reads"].load


def test_the_first_wall_of_a_new_account_is_its_concurrency() -> None:
    new = StackLoad(throttle_per_s=_OPEN, reads_per_s=150, quotas=Quotas(concurrency=10))

    refusing = first_wall(walls_of(new), "refused")

    assert refusing is not None
    assert refusing.part == "Lambda, synchronous invocations"
    assert refusing.is_reached


def _template() -> Mapping[str, Any]:
    class Loader(yaml.SafeLoader):
        """A loader that ignores CloudFormation's tags."""

    Loader.add_multi_constructor("!", lambda loader, suffix, node: None)
    loaded: Mapping[str, Any] = yaml.load((ROOT / "template.yaml").read_text(), Loader)
    return loaded


def test_defaults_are_those_of_the_template() -> None:
    declared = _template()["Parameters"]

    assert declared["ThrottleRatePerS"]["Default"] == TEMPLATE_THROTTLE_PER_S
    assert declared["MaxHotKeys"]["Default"] == TEMPLATE_MAX_HOT_KEYS
    assert declared["HitValueUsdPerMillion"]["Default"] == str(TEMPLATE_HIT_VALUE_USD * 1_000_000)
    usual = StackLoad()
    assert (declared["Policy"]["Default"], declared["Relay"]["Default"]) == (usual.policy, usual.relay)
    assert (declared["PolicyRatePerMin"]["Default"], declared["PolicySensitivity"]["Default"]) == ("9", "4")
    assert declared["CacheMemoryMb"]["Default"] == 256


def test_a_queue_of_the_template_has_the_batches_and_the_bound_of_the_model() -> None:
    queues = [each for each in _template()["Resources"].values() if each["Type"] == "AWS::Lambda::EventSourceMapping"]

    for queue in queues:
        properties = queue["Properties"]
        bound = properties["ScalingConfig"]["MaximumConcurrency"]
        assert (properties["BatchSize"], bound) == (ORIGIN_BATCH, ORIGIN_CONCURRENCY)


def test_retries_and_shards_are_those_of_the_code() -> None:
    assert (use_scheduler._ATTEMPTS, clock._FIRST_PAUSE_S) == (ATTEMPTS, FIRST_PAUSE_S)
    assert (hot_keys._MOST_IN_BANK, hot_keys._KEYS_PER_SHARD, hot_keys._LOAN) == (MOST_IN_BANK, KEYS_PER_SHARD, LOAN)
    assert use_table._REPORTS == REPORTS


def test_a_smaller_region_has_lower_quotas() -> None:
    smaller = Quotas(**REGIONS["eu-central-1"])

    assert (smaller.put_events, smaller.start_executions) == (2_400, 150)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the output of the command."""
    assert main(["research", "scale", *words]) == 0
    return capsys.readouterr().out


def test_the_command_prints_each_wall_and_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "--reads-per-s", "100", "--keys", "10")

    assert "HTTP API, throttle of the stage" in text
    assert (
        "First wall: HTTP API, throttle of the stage, exceeded. Beyond it: 429. Raise it by: `ThrottleRatePerS`."
        in (" ".join(text.split()))
    )
    assert max(map(len, text.splitlines())) <= 80


def test_json_has_load_limit_and_unit_of_each_wall(capsys: pytest.CaptureFixture[str]) -> None:
    printed = json.loads(
        run(capsys, "--json", "--concurrency", "10", "--throttle-per-s", "1000", "--reads-per-s", "200")
    )

    walls = {wall["part"]: wall for wall in printed["walls"]}
    assert printed["first_wall_that_refuses"] == "Lambda, synchronous invocations"
    assert walls["Lambda, synchronous invocations"]["limit"] == 100
    assert all(wall["unit"] and wall["used"] == wall["load"] / wall["limit"] for wall in walls.values())


def test_measured_delays_move_the_walls(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    measured = {"origin_batch_ms": {"128": 110.0, "1024": 10.0}, "s3_ms": 30.0}
    file = tmp_path / "evidence.json"
    file.write_text(json.dumps({"measured": measured}))

    def used(part: str, *words: str) -> float:
        walls = json.loads(run(capsys, "--json", "--reads-per-s", "100", *words))["walls"]
        return float(next(wall["used"] for wall in walls if wall["part"] == part))

    queue, units = "S3's events, queue", "Lambda, concurrent executions"
    assert used(queue, "--measured", str(file)) == pytest.approx(used(queue) * 200 / 150)
    assert used(units, "--measured", str(file)) < used(units)
    assert used(units, "--measured", str(file), "--proxy-ms", "60") == pytest.approx(used(units), rel=0.01)


def test_a_sweep_names_the_first_wall_of_each_effect(capsys: pytest.CaptureFixture[str]) -> None:
    steps = json.loads(run(capsys, "--sweep", "reads_per_s", "--json"))
    text = run(capsys, "--sweep", "reads_per_s")

    assert [step["value"] for step in steps] == [10, 100, 1_000, 10_000, 100_000]
    assert {step["first"]["refused"]["part"] for step in steps} == {"HTTP API, throttle of the stage"}
    assert text.count("refused") == 5
    assert run(capsys, "--sweep", "keys", "--markdown").startswith("| keys | reads are refused |")
    assert "\n| 100 |  |  |  |\n" in run(
        capsys, "--sweep", "readers", "--keys", "10000", "--reads-per-s", "5000", "--markdown"
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--quota", "get_parameters=many"), "expected NAME=NUMBER"),
        (("--quota", "nothing=1"), "get_parameters"),
        (("--node", "fargate-spot:3GB"), "3GB"),
        (("--reads-per-s", "0"), "above 0"),
        (("--sweep", "hope"), "expected one of keys"),
    ],
)
def test_what_is_no_load_is_refused(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], reason: str) -> None:
    assert main(["research", "scale", *words]) == 2
    assert reason in capsys.readouterr().err


def test_a_quota_can_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    printed = json.loads(run(capsys, "--json", "--readers", "10", "--quota", "get_parameters=1000"))

    limits = {wall["part"]: wall["limit"] for wall in printed["walls"]}
    assert limits["SSM GetParameter"] == 1_000
