"""The `burstcache explain` command, which explains a key's tier and possible transitions, as text or JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import chain

from botocore.exceptions import BotoCoreError, ClientError

from burstcache.core.comparison import Comparison, Measure
from burstcache.core.errors import FunctionFailedError
from burstcache.core.parameters import US_PER_S
from burstcache.queries.explain import Explanation, ServedBy, explain, stack_rules
from burstcache.queries.key_costs import Cost, EndedLife, Month
from burstcache.queries.lives import KeyLife
from burstcache.queries.slices import SliceTiers
from burstcache.queries.states import GUEST
from burstcache.queries.system import System
from burstcache.queries.transitions import Blocker, Reason, Rule, StackRules, To, Transition
from burstcache_cli.memory_text import memory_lines
from burstcache_cli.operate import ping_redis
from burstcache_cli.pause_text import below_pause
from burstcache_cli.slices_text import slices_lines
from burstcache_cli.stack import Stack, head_of, stack_of
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.text import (
    NOTHING,
    count_text,
    duration_text,
    number_text,
    shown_text,
    time_text,
    wrapped_text,
)

_COLUMN = 12  # width of the labels
_TIERS: dict[To, str] = {
    "s3": "S3",
    "express": "S3 Express",
    "lambda": "cache function",
    "redis": "Redis",
    "memory": "memory",
    "pool": "pool",
}
_LABELS: dict[To, str] = {**_TIERS, "express": "Express", "lambda": "function"}
_REASONS: dict[ServedBy, str] = {
    "": "no faster tier has it",
    "by_hand": "a person started it",
    "is_hot": "its requests came close to each other",
    "key_starts": "its own requests paid for a cache function",
    "wants_promotion": "its load lasted",
    "node_boots": "the requests for all keys of its node paid for the node, which caches it while it runs",
    "held_by_hand": "the node is held by hand, and caches it while it runs",
    "always_on": "the node never stops (RedisAlwaysOnNodes), and caches it",
}
_RULES: dict[Rule, str] = {
    "is_hot": "its requests come close to each other",
    "key_starts": "its own requests pay for a cache function",
    "cache_function_ready": "the cache function has been started and gets ready",
    "tick": "its cache function ends unless requests prolong its life",
    "key_ends": "its requests no longer pay for the cache function",
    "wants_promotion": "its load lasts",
    "node_boots": "the requests for all keys of the node pay for it",
    "node_ready": "the node boots and takes the key when it is ready",
    "is_released": "a check of the node finds it idle",
    "node_stops": "a check of the node finds that it no longer pays",
    "pause_stops_node": "the stack is paused: its nodes stop within five minutes, whatever is read",
    "pause_ends_function": "the stack is paused: its cache functions end within fifteen minutes, whatever is read",
    "copies": "a reader copies what it has read so often from S3",
    "memory": "a reader keeps what it has read for as long as it may be stale",
    "pool": "programs with the client library read it from the pool",
}
_MEASURES: dict[Measure, tuple[str, str]] = {  # phrases with and without a measured value
    "window_span_s": (
        "with one more the newest requests span {value}, and must stay below {limit}",
        "its newest requests must span less than {limit}",
    ),
    "requests_since_start": ("{value} since the start, and must exceed {limit}", "must exceed {limit}"),
    "queue_span_s": (
        "the fifth newest request was {value} ago, and must be older than {limit}",
        "the fifth newest request must be older than {limit}",
    ),
    "arrivals_span_s": (
        "with one more arrival the newest ones span {value}, and must stay below {limit}",
        "too few arrivals yet; the newest ones must span less than {limit}",
    ),
    "expected_usd_per_h": (
        "with one more arrival the rates that pay earn {value} USD/h, and must reach the {limit} that the others lose",
        "",
    ),
    "tick_s": ("", "each request adds {limit}"),
    "size_bytes": ("{value} bytes of {limit} allowed", ""),
}
_BLOCKERS: dict[Reason, str] = {
    "cool_down": "it cools down after {value} failed lives{until}",
    "too_large": "its {value} bytes exceed the {limit} that a tier takes",
    "no_tier": "the stack has neither cache functions nor nodes",
    "paused": "the stack is paused{until}; `burstcache resume` ends that",
    "node_cools_down": "the node cools down after {value} failed boots{until}",
    "node_hours": "the node has run for as many hours of the day as MaxNodeHoursPerDay allows{until}",
    "node_stopping": "the node is stopping",
    "full": "{value} keys are hot, and MaxHotKeys is {limit}",
    "never_pays": "no load pays for a cache function at these prices",
    "held_by_hand": "the node is held by hand{until}",
    "always_on": "the node never stops (RedisAlwaysOnNodes)",
}


def explain_key(args: argparse.Namespace) -> ExitCode:
    """Print a key's explanation, after a ping of the Redis that has the key. Fail if its object does not exist."""
    stack = stack_of(args)
    explanation = explained(stack, stack.system(), rules_of(stack), args.key)
    if explanation.tier == "redis":
        explanation = replace(explanation, node_silence=_silence_of(stack, explanation.node))
    print(json.dumps(asdict(explanation), indent=2) if args.json else explanation_text(explanation))
    return ExitCode.FAILURE if explanation.exists is False else ExitCode.SUCCESS


def explained(
    stack: Stack, system: System, rules: StackRules, key: str, lives: Sequence[KeyLife] | None = None
) -> Explanation:
    """Return a key's explanation. It takes a HEAD of the object and, if that is large, asks nodes for its slices."""
    head, slice_tiers = head_of(stack, key), None
    if head.size_bytes > rules.settings.max_object_bytes and (text := stack.outputs.get("ReaderSettings", "")):
        slice_tiers = SliceTiers.of(json.loads(text), stack.clients)
    return explain(system, rules, key, lives, head=head, slice_tiers=slice_tiers)


def _silence_of(stack: Stack, node: str) -> str:
    """Return why a node's Redis does not answer, or an empty string if it does, or if the user may not ping it."""
    try:
        return str(ping_redis(stack, node).answer.get("reason", ""))
    except (FunctionFailedError, ClientError, BotoCoreError):
        return ""


def rules_of(stack: Stack) -> StackRules:
    """Return a stack's decision rules, or raise InvalidSettingError or StackIncompleteError."""
    return stack_rules(json.loads(stack.output("PolicySettings")))


def max_object_bytes_of(stack: Stack) -> int:
    """Return the maximum size of objects in faster tiers [bytes]. A stack without this setting has no limit.

    Other settings are not parsed, so that keys can be listed even if other settings are invalid.
    """
    return int(json.loads(stack.outputs.get("PolicySettings", "{}")).get("MAX_OBJECT_BYTES", sys.maxsize))


def explanation_text(explanation: Explanation, *, is_wrapped: bool = True) -> str:
    """Format an explanation as text. If `is_wrapped`, lines have at most 80 characters."""
    sections = (
        ("", _place_lines(explanation)),
        *([("Its slices", _slice_lines(explanation))] if explanation.slices else []),
        ("What would move it", _all_transition_lines(explanation)),
        ("Cost so far", chain(map(_cost_line, explanation.costs), _ended_lines(explanation.ended))),
        ("A month at the present rate", _month_lines(explanation)),
        *(
            [("More memory", memory_lines(explanation.memory))]
            if explanation.memory and explanation.memory.full
            else []
        ),
    )
    wrap = partial(wrapped_text, indent=" " * _COLUMN) if is_wrapped else str
    texts = []
    for title, lines in sections if explanation.exists is not False else sections[:1]:
        body = "\n".join(wrap(f"{label:{_COLUMN}}{text}") for label, text in lines if text)
        texts.append(f"{title}\n{body or 'nothing'}" if title else body)
    return below_pause(explanation.pause, "\n\n".join(texts))


def _place_lines(explanation: Explanation) -> Iterator[tuple[str, str]]:
    on = f" on {explanation.node}" if explanation.tier == "redis" else ""
    since = f" since {time_text(explanation.since_us)}" if explanation.since_us else ""
    because = [_REASONS[explanation.rule], *map(_comparison_text, explanation.compared)]
    yield "key", shown_text(explanation.key)
    if explanation.exists is False:
        yield "exists", "no: S3 has no object of this name, and a read of it is answered with 404"
        yield "execution", explanation.execution_name
        return
    yield "served by", f"{_TIERS[explanation.tier]}{on}{since}"
    silence = f"{explanation.node_silence}; `burstcache redis stop` ends the run"
    yield "", f"reads fall back: Redis does not answer ({silence})" if explanation.node_silence else ""
    yield "because", "; ".join(filter(None, because))
    yield "policy", explanation.policy
    guest = ": a read-through entry, which the node drops when it stops" if explanation.state == GUEST else ""
    yield "state", explanation.state + guest + (", past its deadline" if explanation.is_expired else "")
    yield "execution", explanation.execution_name
    yield "size", f"{explanation.size_bytes:,} bytes" if explanation.size_bytes else "unknown"
    kind = f" on {explanation.node_task}" if explanation.node_task else ""
    yield "node", f"{explanation.node}, {explanation.node_phase}{kind}" if explanation.node else "none"
    yield "", f"its newest trouble: {explanation.node_notice}" if explanation.node_notice else ""
    yield "without", f"{_TIERS[explanation.below]} would serve it" if explanation.below == "express" else ""


def _slice_lines(explanation: Explanation) -> Iterator[tuple[str, str]]:
    if explanation.slices is not None:
        has_pool = any(move.to == "pool" for move in explanation.moves)
        yield from slices_lines(explanation.slices, size_bytes=explanation.size_bytes, has_pool=has_pool)


def _all_transition_lines(explanation: Explanation) -> Iterator[tuple[str, str]]:
    for move in explanation.moves:
        yield from _transition_lines(move, explanation.at_us)


def _transition_lines(move: Transition, at_us: int) -> Iterator[tuple[str, str]]:
    yield f"to {_LABELS[move.to]}", _timing_text(move, at_us)
    yield "", "; ".join(filter(None, map(_comparison_text, move.compared)))
    if move.known_at_us:
        yield "", f"as of {time_text(move.known_at_us)}: later requests are not in these numbers"
    for hold in move.holds:
        yield "", f"but {_blocker_text(hold)}"


def _timing_text(move: Transition, at_us: int) -> str:
    rule = _RULES[move.rule]
    if move.at_us:
        left_s = max(move.at_us - at_us, 0) / US_PER_S
        kept = f"; {count_text(move.requests, 'request')} before that would prevent it" if move.requests else ""
        return f"not before {time_text(move.at_us)}, in {duration_text(left_s)}: {rule}{kept}"
    if move.requests is None:
        return rule
    if move.rule == "copies":
        return f"at read {move.requests} from S3: {rule}"
    return f"{count_text(move.requests, 'request')} now: {rule}"


def _comparison_text(compared: Comparison) -> str:
    measured_text, unmeasured_text = _MEASURES[compared.measure]
    sentence = unmeasured_text if compared.value is None else measured_text
    return sentence.format(
        value=_amount_text(compared.measure, compared.value), limit=_amount_text(compared.measure, compared.limit)
    )


def _amount_text(measure: Measure, value: float | None) -> str:
    if value is None:
        return NOTHING
    return duration_text(value) if measure.endswith("_s") else number_text(value)


def _blocker_text(hold: Blocker) -> str:
    value, limit = (NOTHING if amount is None else number_text(amount) for amount in (hold.value, hold.limit))
    until = f" until {time_text(hold.until_us)}" if hold.until_us else ""
    return _BLOCKERS[hold.reason].format(value=value, limit=limit, until=until)


def _cost_line(cost: Cost) -> tuple[str, str]:
    since, usd = time_text(cost.since_us), number_text(cost.usd)
    if cost.of == "cache_function":
        return "this life", f"{usd} USD for its cache function since {since}"
    share = f"; this key's share, of {count_text(cost.keys, 'key')}: {number_text(cost.share_usd)} USD"
    return "this run", f"{usd} USD for the node since {since}{share if cost.share_usd else ''}"


def _ended_lines(ended: EndedLife | None) -> Iterator[tuple[str, str]]:
    if ended is None:
        return
    lives = "newest life that has" if ended.lives == 1 else f"{ended.lives} newest lives that have"
    spans = []
    if ended.function_usd:
        spans.append(f"{number_text(ended.function_usd)} USD for {duration_text(ended.function_s)} of cache functions")
    if ended.node_usd:
        node = f"{number_text(ended.node_usd)} USD for {duration_text(ended.node_s)} of a node"
        spans.append(f"{node}, which other keys may have shared")
    yield "before", f"its {lives} ended, since {time_text(ended.since_us)}: {' and '.join(spans) or 'nothing'}"


def _month_lines(explanation: Explanation) -> Iterator[tuple[str, str]]:
    month = explanation.month
    if month.requests_per_min is not None:
        yield "key", _rate_text(month.requests_per_min, month.worth_usd, month)
    elif explanation.slices is not None:
        yield "key", "its rate is not known: reads of objects above the limit are not reported"
    elif explanation.tier == "s3":
        yield "key", "its rate is not known: fewer than two of its requests are noted"
    else:
        yield "key", "its rate is not known: only requests that S3 serves are noted one by one"
    if month.node_usd is not None:
        if month.node_requests_per_min is not None:
            yield "all keys", _rate_text(month.node_requests_per_min, month.node_worth_usd, month)
        yield "node", _price_text(month.node_usd, month.node_pays_from_per_min)
    if month.cache_function_usd is not None:
        yield "function", _price_text(month.cache_function_usd, month.cache_function_pays_from_per_min)


def _rate_text(per_min: float, worth_usd: float | None, month: Month) -> str:
    value = f"{number_text(month.hit_value_usd_per_million)} USD per million (HitValueUsdPerMillion)"
    worth = f"{number_text(worth_usd or 0.0)} USD, at {value}"
    return f"{number_text(per_min)} requests a minute; to answer them from memory is worth {worth}"


def _price_text(usd: float, pays_from_per_min: float | None) -> str:
    pays = "" if pays_from_per_min is None else f"; it pays above {number_text(pays_from_per_min)} requests a minute"
    return f"{number_text(usd)} USD if it ran all the time{pays}"
