"""The evidence of a run: one JSON file and one Markdown page, without account numbers and ARNs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from burstcache import __version__
from burstcache_evidence.checks.registry import CHECKS
from burstcache_evidence.findings import Findings, Verdict
from burstcache_evidence.journal import Journal
from burstcache_evidence.measured import measured_of

_ARN = re.compile(r"arn:aws[a-z-]*:[^\s\"',;)]*")
_NUMBER = re.compile(r"(?<!\d)\d{12}(?!\d)")
_HIDDEN_ARN, _HIDDEN_NUMBER = "<arn>", "<account>"


def write_evidence(journal: Journal) -> tuple[Path, Path]:
    """Write `evidence.json` and `evidence.md` into the run's folder, and return their paths."""
    content = redacted(evidence_of(journal))
    paths = journal.folder / "evidence.json", journal.folder / "evidence.md"
    paths[0].write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    paths[1].write_text(page_of(content), "utf-8")
    return paths


def evidence_of(journal: Journal) -> dict[str, Any]:
    """Return a run's evidence: verdicts, measurements, steps, and the proof of the deletion."""
    findings = Findings(journal.content)
    verdicts = [(check, check.judge(findings)) for check in CHECKS]
    return {
        "version": __version__,
        "where": journal.content["where"],
        "region": journal.content["region"],
        "began": time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime(journal.content["began_s"])),
        "stacks": journal.kinds,
        "checks": [
            {"item": check.item, "name": check.name, "verdict": verdict.outcome, "because": verdict.because}
            for check, verdict in verdicts
        ],
        "measured": measured_of(findings),
        "steps": journal.content["steps"],
    }


def redacted(value: Any) -> Any:
    """Return a JSON value without ARNs and numbers of accounts in its texts."""
    if isinstance(value, str):
        return _NUMBER.sub(_HIDDEN_NUMBER, _ARN.sub(_HIDDEN_ARN, value))
    if isinstance(value, Mapping):
        return {redacted(name): redacted(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(each) for each in value]
    return value


def page_of(content: Mapping[str, Any]) -> str:
    """Return the Markdown page of a run's evidence."""
    proof = content["steps"].get("proof", {}).get("found", {})
    counts = dict.fromkeys(Verdict.OUTCOMES, 0)
    for each in content["checks"]:
        counts[each["verdict"]] += 1
    lines = [
        f"# Evidence from {content['where']}, {content['region']}, {content['began']}",
        "",
        f"Burstcache {content['version']}, stacks {', '.join(content['stacks'])}. Of {len(content['checks'])} items not"
        f" tried on AWS: {', '.join(f'{count} {outcome}' for outcome, count in counts.items())}.",
        "",
        f"After the run, {'nothing was left' if proof.get('is_clean') else '**something may be left**'}.",
        "",
        *_table(
            ("Item", "Check", "Verdict", "Because"),
            [(str(each["item"]), f"`{each['name']}`", each["verdict"], each["because"]) for each in content["checks"]],
        ),
        "## Measured",
        "",
        "```json",
        json.dumps(content["measured"], indent=1),
        "```",
        "",
        "## Steps",
        "",
        *_table(
            ("Step", "Seconds", "Problem"),
            [(name, f"{step['took_s']:g}", step.get("problem", "")) for name, step in content["steps"].items()],
        ),
        "## Left after the deletion",
        "",
        *_table(
            ("Stack", "Kind", "Left"),
            [
                (stack, kind, ", ".join(found) or "none")
                for stack, lists in proof.get("left", {}).items()
                for kind, found in lists.items()
            ],
        ),
    ]
    if bill := content["steps"].get("bill", {}).get("found"):
        rows = [(row["service"], row["usage_type"], f"{row['usage']:g}", f"{row['usd']:.6f}") for row in bill["rows"]]
        lines += ["## Bill by Cost Explorer", "", f"{bill['usd']} USD.", ""]
        lines += _table(("Service", "Usage type", "Usage", "USD"), rows)
    return "\n".join(lines).rstrip() + "\n"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return a Markdown table, followed by an empty line."""
    shown = [tuple(cell.replace("|", r"\|").replace("\n", " ") for cell in row) for row in rows]
    return [f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *shown)] + [""]
