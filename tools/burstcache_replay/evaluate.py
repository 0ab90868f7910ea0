"""The `burstcache research evaluate` command, which compares a replay and the stack's usage with a simulation."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace

from burstcache.core.errors import InvalidSettingError
from burstcache_cli.stack import Stack, stack_of
from burstcache_replay import measured as measuring
from burstcache_replay import recording
from burstcache_replay.evaluation import Evaluation, evaluate
from burstcache_replay.executions import running
from burstcache_replay.measured import Measured
from burstcache_replay.recording import Recorded
from burstcache_replay.summary import summarise
from burstcache_replay.timed import as_measured
from burstcache_sim.world.timings import THESIS_TIMINGS, Timings
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.text import count_text, fixed_text, number_text, table_text, wrapped_text

_POLL_S = 2.0
_US_PER_S = 1_000_000
_CLOCK_SKEW_US = 5 * _US_PER_S  # this machine's clock may be ahead of the clock that timestamps executions on AWS
_NOT_MEASURED = "Not included, as they are not metered per request: table, events, logs, metrics, data transfer,"
_METERED = (
    "Table, events, logs, front door and balancers are metered by CloudWatch in whole minutes, the janitor's and other"
    " readers' included. Not included: metrics, data transfer,"
)
_ALL_THE_TIME = "and always-on resources."


def run(args: argparse.Namespace) -> ExitCode:
    """Evaluate a replay, and save the stack's measured usage in the replay's folder."""
    recorded = recording.read(args.results)
    timings = _timings(args)
    measured = measuring.read(args.results)
    if measured is None:
        args.stack_name = args.stack_name or recorded.replay.stack_name
        try:
            measured = _measured(stack_of(args), args, recorded)
        except KeyboardInterrupt:
            return ExitCode.INTERRUPTED
        measuring.write(args.results, measured)
    evaluation = evaluate(recorded, measured, timings)
    source = f"as long as in {args.rehearsal}" if args.rehearsal else "as assumed"
    if args.json:
        print(json.dumps({**evaluation.as_dict(), "timings": {"source": source, **asdict(timings)}}, indent=2))
    else:
        print(evaluation_text(evaluation, recorded, source, is_metered=measured.services is not None))
    return ExitCode.SUCCESS


def _timings(args: argparse.Namespace) -> Timings:
    timings = replace(
        THESIS_TIMINGS,
        cold_start_us=round(args.cold_start_s * _US_PER_S),
        warm_start_us=round(args.warm_start_s * _US_PER_S),
        redis_boot_us=round(args.boot_s * _US_PER_S),
        redis_stop_us=round(args.stop_s * _US_PER_S),
    )
    if args.rehearsal is None:
        return timings
    if (rehearsed := measuring.read(args.rehearsal)) is None:
        raise InvalidSettingError(
            f"--rehearsal {args.rehearsal}: has no {measuring.MEASURED}; expected a replay that has been evaluated"
        )
    return as_measured(timings, recording.read(args.rehearsal), rehearsed)


def _measured(
    stack: Stack, args: argparse.Namespace, recorded: Recorded, sleep: Callable[[float], None] = time.sleep
) -> Measured:
    """Wait until all executions started by the replay have ended, and then measure the stack's usage."""
    since_us = recorded.replay.began_us - _CLOCK_SKEW_US * stack.is_deployed
    arns = [stack.outputs[name] for name in ("KeyLifecycleArn", "RedisNodeArn") if name in stack.outputs]
    reported: set[str] = set()
    while names := set(running(stack.clients.states, arns, since_us=since_us)):
        for name in sorted(names - reported):
            print(f"waiting for {name} to end", file=sys.stderr)
        reported |= names
        sleep(_POLL_S)
    if stack.is_deployed:
        print(f"waiting {measuring.LATE_S} s for the metrics of the last minutes", file=sys.stderr)
        sleep(measuring.LATE_S)
    return measuring.measure(stack, args.state_dir, since_us=since_us, until_us=time.time_ns() // 1000)


def evaluation_text(
    evaluation: Evaluation, recorded: Recorded, timings_source: str, *, is_metered: bool = False
) -> str:
    """Format an evaluation as tables. `is_metered` means that AWS metered the service usage."""
    left_out = _METERED if is_metered else _NOT_MEASURED
    parts = [
        f"{count_text(evaluation.requests, 'request')} under {evaluation.policy}, {_speed_text(recorded.replay.speed)}",
        _tiers_text(evaluation, recorded),
        _same_text(evaluation),
        _bill_text(evaluation),
        table_text(
            ("QUANTITY", "PREDICTED", "MEASURED"),
            [(each.text, number_text(each.predicted), number_text(each.measured)) for each in evaluation.quantities],
            right=(1, 2),
        ),
        wrapped_text(f"Predicted with starts and boots {timings_source}. {left_out} {_ALL_THE_TIME}"),
    ]
    return "\n\n".join(parts)


def _speed_text(speed: float) -> str:
    return "at the trace's own speed" if speed == 1 else f"{number_text(speed)} times as fast as the trace"


def _tiers_text(evaluation: Evaluation, recorded: Recorded) -> str:
    spreads = {each.tier: each.latency for each in summarise(recorded.outcomes).tiers}
    rows = [
        (
            each.tier,
            f"{each.predicted:,}",
            f"{each.measured:,}",
            _ms_text(each.predicted_ms if each.predicted else None),
            _ms_text(each.measured_ms),
            *(map(_ms_text, (spreads[each.tier].p50_ms, spreads[each.tier].p99_ms)) if each.measured else ("-", "-")),
        )
        for each in evaluation.tiers
    ]
    header = ("TIER", "PREDICTED", "MEASURED", "PREDICTED MS", "MEAN MS", "P50 MS", "P99 MS")
    return table_text(header, rows, right=range(1, 7))


def _ms_text(value_ms: float | None) -> str:
    return "-" if value_ms is None else fixed_text(value_ms, 1)


def _same_text(evaluation: Evaluation) -> str:
    predicted = count_text(evaluation.predicted, "request")
    lines = [f"As predicted: {evaluation.same_tier:,} of {predicted} ({evaluation.same_tier_pct:.2f} %)"]
    if not_predicted := evaluation.requests - evaluation.predicted:
        lines[0] += f"; another {not_predicted:,} have no prediction"
    lines += [f"  {count:,}: {cause}" for cause, count in evaluation.causes.items()]
    lines.append(f"With functions and nodes ready at the measured times: {evaluation.same_tier_as_timed:,}")
    return "\n".join(lines)


def _bill_text(evaluation: Evaluation) -> str:
    def row(text: str, predicted_usd: float, measured_usd: float) -> tuple[str, ...]:
        apart = f"{100 * (measured_usd / predicted_usd - 1):+.1f}" if predicted_usd else "-"
        return text, f"{predicted_usd:.6f}", f"{measured_usd:.6f}", apart

    cache = [row(item.text, item.predicted_usd, item.measured_usd) for item in evaluation.items if item.is_cache]
    around = [row(item.text, item.predicted_usd, item.measured_usd) for item in evaluation.items if not item.is_cache]
    rows = [
        *cache,
        row("the cache", *evaluation.usd(only_cache=True)),
        *around,
        row("all", *evaluation.usd(only_cache=False)),
    ]
    return table_text(("BILL", "PREDICTED USD", "MEASURED USD", "%"), rows, right=(1, 2, 3))
