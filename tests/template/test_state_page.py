"""Page of state databases: its table of tasks has the template's sizes, and the times that follow from them."""

from __future__ import annotations

import re
from typing import Any

from support.project import ROOT

_VCPU_MB_PER_S = (100, 600, 400)  # dump, checksum, upload


def test_the_table_of_tasks_has_the_sizes_of_the_template(template: dict[str, Any]) -> None:
    page = (ROOT / "docs/use/state.md").read_text()
    table = page.partition("| `RedisTaskMemoryGb` | 0.5")[0].count("\n")
    names, _, data_mb, vcpus, seconds = (_cells(line) for line in page.splitlines()[table : table + 5])

    assert len(names) == 5
    for name, mb, vcpu, second in zip(names, data_mb, vcpus, seconds, strict=True):
        size = template["Mappings"]["RedisTaskSizes"][name]
        assert int(size["StateMaxMemoryMb"]) == int(mb)
        assert int(size["Cpu"]) / 1024 == float(vcpu)
        assert round(sum(int(mb) / (float(vcpu) * rate) for rate in _VCPU_MB_PER_S)) == int(second)


def _cells(line: str) -> list[str]:
    return [cell.strip().replace(",", "") for cell in re.split(r"\|", line)[2:-1]]
