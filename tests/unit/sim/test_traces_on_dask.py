"""A Dask cluster's workers read what one machine reads."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from random import Random
from typing import Any

import pytest

from burstcache.core.errors import InvalidSettingError
from burstcache_cli.cli import main
from burstcache_sim.traces import parallel
from burstcache_sim.traces.cluster import _check_workers
from burstcache_sim.traces.errors import BadLogError
from burstcache_sim.traces.read import read_log
from unit.sim.test_traces_bulk import columns_of
from unit.sim.test_traces_formats import s3_row
from unit.sim.test_traces_in_the_field import caddy, rows


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None, silence_logs=50
    ) as cluster:
        yield cluster.scheduler_address


def write_logs(folder: Path) -> None:
    random = Random(5)
    for number in range(6):
        lines = (
            s3_row(
                key=f"k{random.randrange(900)}",
                status=random.choice(["200 -", "206 -", "304 -"]),
                sizes=random.choice(["9 500", "500 500", "- 500"]),
                time=f"06/Feb/2019:0{random.randrange(9)}:00:38 +0000",
            )
            for _ in range(1_500)
        )
        (folder / f"{number}.log").write_text("".join(lines))


@pytest.mark.slow
def test_a_cluster_reads_what_one_machine_reads(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_logs(tmp_path)
    monkeypatch.chdir(tmp_path.parent)  # relative paths, which the workers have from elsewhere

    options: dict[str, Any]
    for options in ({}, {"sample_keys": 0.3}, {"sample_keys": None, "most_requests": 2_000}, {"rank": 2}):
        told: list[int] = []
        alone: Any = read_log(tmp_path.name, **options)
        together: Any = read_log(tmp_path.name, dask=address, on_lines=told.append, **options)

        if options != {"rank": 2}:
            assert columns_of(together) == columns_of(alone)
        assert together.trace.arrivals_us.tolist() == alone.trace.arrivals_us.tolist()
        assert (together.trace.sample, together.trace.keys) == (alone.trace.sample, alone.trace.keys)
        assert (together.rows, together.other_requests, sum(told)) == (alone.rows, alone.other_requests, 9_000)


@pytest.mark.slow
def test_workers_know_the_format_that_the_first_lines_showed(tmp_path: Path, address: str) -> None:
    (tmp_path / "a.json").write_text(rows(caddy(1, "/a"), caddy(2, "/b")))
    table = "when;who;bytes\n1772359200000;a;5\n"
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "t.csv").write_text(table)

    assert read_log(tmp_path / "a.json", dask=address).trace.keys == ("/a", "/b")
    assert read_log(tmp_path / "b", names={"time": "when", "key": "who"}, dask=address).trace.keys == ("a",)


@pytest.mark.slow
def test_all_files_have_the_format_of_the_first(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_MIN_TASK_BYTES", 1)  # so that each file is a task
    (tmp_path / "1.csv").write_text("time,key\n1772359200000,a\n")
    (tmp_path / "2.csv").write_text("time;key\n1772359205000;b\n")

    with pytest.raises(BadLogError, match=r"2.csv line 1: .*expected the header of a table .* separated by commas"):
        read_log(tmp_path, dask=address)


@pytest.mark.slow
def test_an_error_of_a_worker_names_file_and_line(tmp_path: Path, address: str) -> None:
    for number in range(3):
        (tmp_path / f"{number}.log").write_text(s3_row() + ("torn\n" if number else ""))

    with pytest.raises(BadLogError, match=r"1.log line 2: 'torn': expected a record .*\(on a worker of tcp://"):
        read_log(tmp_path, dask=address)
    assert read_log(tmp_path, dask=address, skip_bad_rows=True).bad_rows == 2


def test_a_missing_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.log").write_text(s3_row())
    monkeypatch.setitem(sys.modules, "distributed", None)

    assert main(["sim", "inspect", str(tmp_path), "--dask", "tcp://127.0.0.1:1"]) == 2
    assert "--dask needs distributed: pip install 'burstcache-tools[dask]'" in capsys.readouterr().err


class _Workers:
    """A client of a cluster whose only worker has these distributions."""

    def __init__(self, **versions: str) -> None:
        self._versions = versions

    def run(self, _: object, package: str) -> dict[str, str]:
        if (found := self._versions.get(package.replace("-", "_"))) is None:
            raise PackageNotFoundError(package)
        return {"tcp://127.0.0.1:1": found}


@pytest.mark.parametrize(
    ("workers", "problem"),
    [
        (_Workers(burstcache=version("burstcache")), r"not have burstcache-tools: install burstcache-tools\[dask\] \d"),
        (_Workers(burstcache=version("burstcache"), burstcache_tools="0.0.1"), "have burstcache-tools 0.0.1, this is"),
    ],
    ids=["library alone", "other version"],
)
def test_workers_need_the_tools_in_the_same_version(workers: _Workers, problem: str) -> None:
    with pytest.raises(InvalidSettingError, match=f"--dask tcp://x:1: its workers (do )?{problem}"):
        _check_workers("tcp://x:1", workers)


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from burstcache_sim.traces import cluster

    (tmp_path / "a.log").write_text(s3_row())
    monkeypatch.setattr(cluster, "_CONNECT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    for where in (f"tcp://127.0.0.1:{port}", "nothing://x"):
        with pytest.raises(InvalidSettingError, match=f"--dask {where}: no scheduler answers"):
            read_log(tmp_path, dask=where)
