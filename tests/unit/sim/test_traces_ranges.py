"""A range of an object is a key of its own: what was sent is billed, what was read is held."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache_sim.traces.columns import Columns
from burstcache_sim.traces.inspect import describe, describe_text, ranges_text
from burstcache_sim.traces.ranges import UNKNOWN_BYTES, ResponseContent, join_key, response_content, split_key
from burstcache_sim.traces.read import read_log
from burstcache_sim.traces.sampling import Threshold, expected_error, key_hash
from burstcache_sim.traces.select import of_rank
from burstcache_sim.traces.store import Store
from burstcache_sim.traces.trace import KeySample, Trace
from support.trace_columns import keys_of, sizes_of
from unit.sim.test_traces_formats import cloudfront_row, combined_row, log_of, s3_row

_MB = 1_000_000


def amounts(trace: Trace) -> list[tuple[str, int, int, int]]:
    """Return key, size, bytes sent and the object's size of each request."""
    assert trace.sizes_bytes is not None
    sent = trace.sizes_bytes if trace.sent_bytes is None else trace.sent_bytes
    objects = trace.sizes_bytes if trace.object_bytes is None else trace.object_bytes
    return list(zip(keys_of(trace), sizes_of(trace), sent.tolist(), objects.tolist(), strict=True))


def ranged(sizes: str, key: str = "a.parquet", uri: str = '"GET /media/a.parquet HTTP/1.1"') -> str:
    return s3_row(key=key, uri=uri, status="206 -", sizes=sizes)


def test_equal_lengths_of_an_object_of_s3_are_one_piece_and_the_object_has_its_size(tmp_path: Path) -> None:
    log = log_of(
        tmp_path, ranged("65536 300000000"), ranged("65536 300000000"), ranged("8 300000000"), ranged("8 9", "b")
    )

    assert amounts(log.trace) == [
        ("a.parquet [65536 bytes]", 65_536, 65_536, 300 * _MB),
        ("a.parquet [65536 bytes]", 65_536, 65_536, 300 * _MB),
        ("a.parquet [8 bytes]", 8, 8, 300 * _MB),
        ("b [8 bytes]", 8, 8, 9),
    ]
    assert (log.range_requests, log.trace.assumed_ranges) == (4, 4)
    assert "4 requests read ranges that the log does not show" in ranges_text(log.trace)
    assert "Ranges:" in describe_text(describe(log, top=1))


def test_parts_of_one_length_differ_by_the_number_in_the_request_to_s3(tmp_path: Path) -> None:
    parts = (ranged("8 80", uri=f'"GET /media/a.parquet?x=1&partNumber={number} HTTP/1.1"') for number in (1, 2, 1))

    log = log_of(tmp_path, *parts)

    assert keys_of(log.trace) == ["a.parquet [part 1]", "a.parquet [part 2]", "a.parquet [part 1]"]
    assert (log.range_requests, log.trace.assumed_ranges) == (3, 0)


def test_a_range_of_the_whole_object_is_the_object(tmp_path: Path) -> None:
    log = log_of(tmp_path, ranged("500 500"), s3_row(key="a.parquet"))

    assert amounts(log.trace) == [("a.parquet", 500, 500, 500)] * 2


def test_an_answer_that_was_cut_off_is_billed_by_what_was_sent_and_held_whole(tmp_path: Path) -> None:
    log = log_of(tmp_path, s3_row(sizes="20 500"), s3_row(status="304 -", sizes="- 500"), s3_row())

    assert amounts(log.trace) == [("a.jpg", 500, 20, 500), ("a.jpg", 500, 0, 500), ("a.jpg", 500, 500, 500)]


def test_an_access_log_has_the_object_s_size_from_its_whole_answers(tmp_path: Path) -> None:
    log = log_of(
        tmp_path, combined_row(status="206", size="10"), combined_row(size="900"), combined_row(status="304", size="0")
    )

    assert amounts(log.trace) == [
        ("/a.html [10 bytes]", 10, 10, 900), ("/a.html", 900, 900, 900), ("/a.html", 900, 0, 900)
    ]  # fmt: skip


def test_cloudfront_shows_ranges_and_what_viewers_received(tmp_path: Path) -> None:
    header = (
        "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status "
        "cs(Referer) cs(User-Agent) sc-content-len sc-range-start sc-range-end\n"
    )
    rows = (
        cloudfront_row(status=status).replace("\t300\n", f"\t{tail}\n").replace("\t392\t", f"\t{sent}\t")
        for status, tail, sent in (
            ("206", "100\t0\t99", "492"),
            ("206", "100\t100\t199", "7"),
            ("200", "300\t-\t-", "3"),
        )
    )

    log = log_of(tmp_path, header, *rows)

    assert amounts(log.trace) == [
        ("/a b.jpg [bytes 0-99]", 100, 100, 300),
        ("/a b.jpg [bytes 100-199]", 100, 7, 300),
        ("/a b.jpg", 300, 3, 300),
    ]
    assert log.trace.assumed_ranges == 0


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_table_names_ranges_bytes_sent_and_the_object_s_size(tmp_path: Path, quote: str) -> None:
    log = log_of(
        tmp_path,
        "t,key,size,range,sent_bytes,object_bytes\n",
        f"0,{quote}a{quote},,bytes=0-9,10,100\n",
        f"1,{quote}a{quote},,bytes=-10,,100\n",
        f"2,{quote}a{quote},,bytes=90-,4,100\n",
        f"3,{quote}a{quote},,-,,100\n",
        f"4,{quote}a{quote},,bytes=0-,30,100\n",
    )

    assert amounts(log.trace) == [
        ("a [bytes 0-9]", 10, 10, 100),
        ("a [bytes 90-99]", 10, 10, 100),
        ("a [bytes 90-99]", 10, 4, 100),
        ("a", 100, 100, 100),
        ("a", 100, 30, 100),
    ]


def test_json_lines_have_ranges_by_the_header(tmp_path: Path) -> None:
    row = '{"ts": %d, "uri": "/a", "status": 206, "bytes": 10, "http_range": "bytes=%s"}\n'

    log = log_of(tmp_path, row % (0, "0-9"), row % (1, "10-19"), row % (2, "0-9, 20-29"))

    assert keys_of(log.trace) == ["/a [bytes 0-9]", "/a [bytes 10-19]", "/a [bytes 0-9,20-29]"]


@pytest.mark.parametrize(
    ("range_", "body_bytes", "object_bytes", "answer"),
    [
        (b"", 7, UNKNOWN_BYTES, (b"7", 7)),
        (b"", UNKNOWN_BYTES, UNKNOWN_BYTES, (b"?", UNKNOWN_BYTES)),
        (b"-", 7, 70, (b"7", 7)),
        (b"bytes=0-6", UNKNOWN_BYTES, UNKNOWN_BYTES, (b"0-6", 7)),
        (b"bytes 0-6/70", 7, UNKNOWN_BYTES, (b"0-6", 7)),
        (b"0-999", 500, UNKNOWN_BYTES, (b"0-999", 500)),
        (b"0-999", 500, 500, (b"", 500)),
        (b"bytes=0-", 500, UNKNOWN_BYTES, (b"", 500)),
        (b"bytes=9-", 500, UNKNOWN_BYTES, (b"9-", 500)),
        (b"bytes=-9", 9, UNKNOWN_BYTES, (b"-9", 9)),
        (b"bytes=-999", 9, 9, (b"", 9)),
        (b"bytes=9-1", 9, UNKNOWN_BYTES, (b"9-1", 0)),
        (b"bytes=0-9999999999999999999999", 9, UNKNOWN_BYTES, (b"0-9999999999999999999999", 9)),
        (b"lines=1-2", 9, UNKNOWN_BYTES, (b"lines=1-2", 9)),
    ],
)
def test_a_range_is_named_and_measured(
    range_: bytes, body_bytes: int, object_bytes: int, answer: tuple[bytes, int]
) -> None:
    found = response_content(b"206", body_bytes=body_bytes, object_bytes=object_bytes, range_=range_)

    assert (found.piece, found.size_bytes) == answer


@pytest.mark.parametrize(
    ("range_", "body_bytes", "answer"),
    [
        (b"bytes=0-65535", 300 * _MB, ResponseContent(b"0-65535", 65_536, UNKNOWN_BYTES, 300 * _MB)),
        (b"bytes=-500", 300 * _MB, ResponseContent(b"299999500-299999999", 500, UNKNOWN_BYTES, 300 * _MB)),
        (b"bytes=0-65535", 65_936, ResponseContent(b"0-65535", 65_536, UNKNOWN_BYTES, UNKNOWN_BYTES)),  # with headers
        (b"bytes=0-65535", 65_536, ResponseContent(b"0-65535", 65_536, UNKNOWN_BYTES, UNKNOWN_BYTES)),
        (b"bytes=1000-", 300 * _MB, ResponseContent(b"1000-", 300 * _MB, UNKNOWN_BYTES, UNKNOWN_BYTES)),
    ],
)
def test_a_length_that_no_body_of_the_range_can_have_is_the_objects(
    range_: bytes, body_bytes: int, answer: ResponseContent
) -> None:
    assert response_content(b"206", body_bytes=body_bytes, range_=range_) == answer


def test_an_object_is_at_least_as_large_as_its_ranges_reach(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("t,key,size,range\n0,a,8,bytes=0-7\n1,a,8,bytes=92-99\n2,b,8,bytes=0-7\n3,b,70,\n")

    trace = read_log([path]).trace

    assert trace.object_bytes is not None
    assert trace.object_bytes.tolist() == [100, 100, 70, 70]
    assert trace.unsized_ranges == 2  # of b a row shows the size


@given(st.binary(max_size=6), st.sampled_from([b"", b"1", b"0-5", b"p3", b"?"]))
def test_keys_of_pieces_are_never_mistaken_for_others(name: bytes, piece: bytes) -> None:
    assert split_key(join_key(name + b"\0" + name, piece)) == (name + b"\0" + name, piece)
    assert split_key(join_key(name, piece)) == (name, piece)


def test_all_pieces_of_an_object_are_sampled_or_none(tmp_path: Path) -> None:
    names = [f"{number}.parquet" for number in range(40)]
    log = log_of(tmp_path, *(ranged(f"{size} 900", name) for name in names for size in (5, 6, 7)), sample_keys=0.5)

    sampled = {key.partition(" ")[0] for key in log.trace.keys}
    assert 0 < len(sampled) < len(names)
    assert sampled == {name for name in names if key_hash(b"media/" + name.encode()) < 2**63}
    assert len(log.trace) == 3 * len(sampled)


def test_the_error_of_a_sample_is_of_objects_whose_ranges_are_drawn_together() -> None:
    ids = np.arange(400, dtype=np.int32)
    apart = Trace(np.arange(400), ids, None, tuple(map(str, ids)), KeySample(0.5, 800))
    together = replace(apart, objects=tuple(str(number // 4) for number in range(400)))

    assert expected_error(together) == pytest.approx(2 * expected_error(apart))


def test_a_sample_that_shrinks_keeps_what_was_sent() -> None:
    columns = Columns(Threshold(most_requests=20))
    for number in range(40):
        columns.add(number, b"%d" % number, ResponseContent(b"1-2", number, 2 * number, 3 * number))

    _, _, sizes, sent, objects = columns.arrays()

    assert sizes is not None
    assert sent is not None
    assert objects is not None
    assert 0 < len(sizes) <= 20
    assert np.array_equal(sent, 2 * sizes)
    assert np.array_equal(objects, 3 * sizes)


def test_the_requests_of_a_rank_keep_what_was_sent(tmp_path: Path) -> None:
    rows = (ranged("5 900"), ranged("5 900"), s3_row(sizes="20 500"))
    log_of(tmp_path, *rows)

    one = read_log(tmp_path / "access.log", rank=2).trace
    same = of_rank(read_log(tmp_path / "access.log").trace, 2)

    for trace in (one, same):
        assert (trace.keys, trace.key_ids) == (("a.jpg",), None)
        assert [column is not None and column.tolist() for column in (trace.sizes_bytes, trace.sent_bytes)] == [
            [500],
            [20],
        ]
    assert of_rank(read_log(tmp_path / "access.log").trace, 1).object_bytes.tolist() == [900, 900]  # type: ignore[union-attr]


def test_a_store_keeps_what_was_sent(tmp_path: Path) -> None:
    from burstcache_sim.traces.reading import RowCounts

    for answers in (
        [ResponseContent(b"", 9, 4, -1), ResponseContent(b"8", 8, -1, 80)],
        [ResponseContent(b"", 9, -1, -1)],
    ):
        columns = Columns()
        for number, answer in enumerate(answers):
            columns.add(number, b"a", answer)
        store = Store(tmp_path)
        store.save(tmp_path / "a.npz", columns, RowCounts(2))

        kept = store.load(tmp_path / "a.npz")

        assert kept
        assert kept[0].ids == columns.ids
        for found, expected in zip(kept[0].arrays(), columns.arrays(), strict=True):
            assert (found is None) == (expected is None)
            assert found is None or np.array_equal(found, expected)  # type: ignore[arg-type]


def test_a_replay_reads_whole_objects(tmp_path: Path) -> None:
    from argparse import Namespace

    from burstcache_replay.command import _keys

    trace = log_of(tmp_path, ranged("5 900"), s3_row(), ranged("7 900", "b")).trace

    assert trace.objects == ("a.parquet", "a.jpg", "b")
    assert _keys(Namespace(key="", prefix="p/"), trace, has_paths=False) == ["p/a.parquet", "p/a.jpg", "p/b"]
    assert of_rank(trace, 1).objects == ("a.jpg",)
