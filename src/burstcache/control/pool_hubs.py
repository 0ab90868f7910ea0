"""The pool's hubs. A hub reports once a minute, and in return gets the members, the redundancy and the other hubs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from burstcache.control.pool_life import ensure_running, is_due, start
from burstcache.control.pool_rounds import choice_of
from burstcache.control.pool_tools import PoolTools
from burstcache.core.errors import InvalidSettingError
from burstcache.core.messages.pool_control import Coded, HubTotals, KnownHub, PoolPlan
from burstcache.core.parameters import US_PER_S
from burstcache.core.pool.retention import REPORT_S, HubStatus
from burstcache.core.pool.slices import Redundancy

STARTING_REPORT_S = 10  # between two reports of a reader while its hub starts
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TOKEN = re.compile(r"([0-9a-f]{2}){16,64}")


def report(
    tools: PoolTools, hub: KnownHub, totals: HubTotals, used: Mapping[str, str], *, takes_readers: bool = False
) -> PoolPlan:
    """Register a hub, keep members alive if it uses them, and return its plan.

    Args:
        tools: The tools of pool control.
        hub: The hub's address.
        totals: Its totals since its start.
        used: The members connected to the hub since its last report, each with its environment if known.
        takes_readers: Whether the hub serves readers that members cannot dial.

    Raises:
        InvalidSettingError: The report is invalid.
        ServiceError: DynamoDB or Step Functions fails.
    """
    _check(hub, totals, used)
    plan = _noted(tools, hub, totals, used, takes_readers=takes_readers)
    if takes_readers:
        end_unused_hub(tools)
    return plan


def report_reader(tools: PoolTools, id_: str, totals: HubTotals, *, is_reading: bool) -> PoolPlan:
    """Register a reader that members cannot dial. Start a hub if the reader is active and there is no hub.

    Args:
        tools: The tools of pool control.
        id_: The reader's ID, distinct from all hubs' IDs.
        totals: Its totals since its start.
        is_reading: Whether the reader had requests since its last report.

    Returns:
        The plan, with the hubs that serve such readers. While a hub starts, the next report is due sooner.

    Raises:
        InvalidSettingError: The report is invalid, or the stack has no such hub.
        ServiceError: DynamoDB, Step Functions or ECS fails.
    """
    if tools.hubs is None:
        raise InvalidSettingError("this stack has no hub for readers that members cannot dial; PoolHub fargate is one")
    _check_totals(id_, totals)
    plan = _noted(tools, KnownHub(id=id_, host="", port=0, token="", certificate=""), totals, {})
    if plan["members"] and is_reading:
        tools.table.put_reader(tools.clock.now_us())
        if not plan["hubs"]:
            tools.hubs.run(1)
            plan["report_s"] = STARTING_REPORT_S
    return plan


def end_unused_hub(tools: PoolTools) -> None:
    """Stop the hub for readers that members cannot dial if it was unused for `keep_s` or the stack is paused.

    Raises:
        ServiceError: DynamoDB or ECS fails.
    """
    unused_since_us = tools.table.read().state.reader_at_us + tools.keep_s * US_PER_S
    if tools.hubs and (tools.clock.now_us() >= unused_since_us or tools.pauses.read() is not None):
        tools.hubs.run(0)


def _noted(
    tools: PoolTools, hub: KnownHub, totals: HubTotals, used: Mapping[str, str], *, takes_readers: bool = False
) -> PoolPlan:
    now_us, rows = tools.clock.now_us(), tools.table.read()
    is_paused = tools.pauses.read() is not None
    reported = next((each for each in rows.hubs if each.address["id"] == hub["id"]), None)
    former = reported or HubStatus(hub)
    is_used = any(totals[name] > former.totals[name] for name in ("hits", "stored_bytes"))
    seen = HubStatus(
        hub,
        reported_at_us=now_us,
        used_at_us=now_us if is_used else former.used_at_us,
        totals=totals,
        takes_readers=takes_readers,
        counted=former.counted,
        control=tools.control_after(former.control),
        used={**former.used, **{name: (used[name] or former.used.get(name, ("", 0))[0], now_us) for name in used}},
    )
    tools.table.put_hub(seen, now_us)
    is_reader = not hub["host"]
    if not reported:  # of two hubs that start at the same time, at least one sees the other
        rows = tools.table.read()
    choice = rows.state.choice or tools.table.put_first_choice(choice_of(tools, rows, now_us))
    is_kept, expired_us = rows.state.is_kept(now_us), now_us - tools.keep_s * US_PER_S
    if is_kept:
        ensure_running(tools, rows.state)
    elif not is_paused and seen.used_at_us > max(rows.state.ended_at_us, expired_us):
        start(tools, rows.state)
    return PoolPlan(
        members=[] if is_paused else list(tools.members),
        redundancy=_coded(choice.redundancy),
        former=[_coded(each) for each in choice.former],
        warm_s=choice.warm_s,
        backup_s=choice.backup_s,
        report_s=REPORT_S,
        is_round_due=is_kept and not is_paused and not is_reader and is_due(rows.state, now_us),
        hubs=[
            each.address
            for each in rows.live_hubs(now_us)
            if each.address["id"] != hub["id"] and (each.takes_readers or not is_reader)
        ],
    )


def leave(tools: PoolTools, id_: str, totals: HubTotals) -> None:
    """Record that a hub has stopped. The next round adds up its totals.

    Raises:
        ServiceError: DynamoDB fails.
    """
    for hub in tools.table.read().hubs:
        if hub.address["id"] == id_:
            control = tools.control_after(hub.control)
            left = replace(hub, reported_at_us=0, totals=totals, control=control)
            tools.table.put_hub(left, tools.clock.now_us())


def _coded(redundancy: Redundancy) -> Coded:
    return Coded(data=redundancy.data, parity=redundancy.parity)


def _check(hub: KnownHub, totals: HubTotals, used: Mapping[str, str]) -> None:
    _check_totals(hub["id"], totals)
    if not hub["host"]:
        raise InvalidSettingError(f"hub {hub['id']} has no address")
    if not _TOKEN.fullmatch(hub["token"]):
        raise InvalidSettingError(f"the token of hub {hub['id']}: 16 to 64 bytes in hexadecimal digits are accepted")
    if not 0 < hub["port"] < 1 << 16:
        raise InvalidSettingError(f"port {hub['port']} of hub {hub['id']}: 1 to 65535 are accepted")
    if not all(isinstance(text, str) for pair in used.items() for text in pair):
        raise InvalidSettingError(f"used members of hub {hub['id']}: names with environments are accepted")


def _check_totals(id_: str, totals: HubTotals) -> None:
    if not _ID.fullmatch(id_):
        raise InvalidSettingError(f"hub id {id_[:80]!r}: 1 to 64 letters, digits, _ and - are accepted")
    if set(totals) != set(HubTotals.__annotations__) or not all(
        type(count) is int and count >= 0 for count in totals.values()
    ):
        names = ", ".join(HubTotals.__annotations__)
        raise InvalidSettingError(f"totals of hub {id_}: whole numbers of at least 0 are accepted, called {names}")
