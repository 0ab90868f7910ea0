"""Width of the commands' output: at most 80 characters."""

from __future__ import annotations

import pytest

from burstcache_cli.cli import main

POLICIES = ("thesis", "breakeven --hit-value-usd 1e-4")

OTHERS = (
    *(f"sim {name} {{}} --policy {policy}" for name in ("run", "bill", "compare") for policy in POLICIES),
    f"sim report {{}} --policy {POLICIES[1]}",
    "sim tune {} --in-memory-pct 0.1 --candidates 40 --policy hazard",
    "sim bill {} --period-hours 100000",
    "sim compare {} --period-hours 100000",
    *(f"advise {{}} --candidates 20 {more}" for more in ("", "--long --hit-value-usd 1e-4")),
    "sim inspect {}",
    "research offline {}",
    "research optimum {}",
)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Ten minutes of one object; an hour of many that are large, with long names and dates; a year of vast ones."""
    folder = tmp_path_factory.mktemp("traces")
    (folder / "one.csv").write_text("arrival_s\n" + "".join(f"{at_s}.25\n" for at_s in range(0, 600, 4)))
    names = [f"{'a-folder-with-a-long-name/' * i}object-{i}.parquet" for i in range(5)]
    (folder / "many.csv").write_text(
        "t,key,size\n"
        + "".join(f"{1_760_000_000 + at_s * 2},{names[at_s * 7 % 5]},{3_900_000 + at_s % 5}\n" for at_s in range(1_800))
    )
    (folder / "vast.csv").write_text(
        "t,key,size\n" + "".join(f"{day * 86_400},{day % 7},{5 * 10**12}\n" for day in range(400))
    )
    return {path.stem: str(path) for path in folder.iterdir()}


@pytest.mark.parametrize("trace", ["one", "many", "vast"])
@pytest.mark.parametrize(
    "command",
    [
        f"sim report {{}} --policy {POLICIES[0]}",
        "sim tune {} --in-memory-pct 0.1 --candidates 40 --policy thesis",
        "advise {} --candidates 20 --long",
        *(pytest.param(command, marks=pytest.mark.slow) for command in OTHERS),
    ],
)
def test_every_line_fits_eighty_characters(
    capsys: pytest.CaptureFixture[str], traces: dict[str, str], command: str, trace: str
) -> None:
    if trace != "one" and command.split()[1] in {"offline", "optimum"}:
        command += " --rank 1"

    has_no_hit = trace == "vast" and "--in-memory-pct" in command  # its objects are too large
    assert main(command.format(traces[trace]).split()) == (1 if has_no_hit else 0)

    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == []
