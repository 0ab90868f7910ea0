"""Generated traces: the rules' definitions, byte for byte."""

from __future__ import annotations

import hashlib
import math
from random import Random

import pytest

from burstcache_cli.cli import main
from burstcache_sim.traces import generate


def generated(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["sim", "generate", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sha256"),
    [
        (
            ("poisson", "--seed", "1", "--rate-per-min", "3", "--duration-s", "1800"),
            "296fd2c68c6403186f3210a5fc9939caeb7b75279333e3aef99f5b00adb399f4",
        ),
        (
            ("spike", "--seed", "1", "--std-s", "50", "--requests", "150"),
            "becfd8cfa89e193d515178b8d749002b5205e30d4236627e147f80c555e937a5",
        ),
    ],
)
def test_the_reference_traces_are_made_again_byte_for_byte(
    arguments: tuple[str, ...], sha256: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hashlib.sha256(generated(capsys, *arguments).encode()).hexdigest() == sha256


def test_mmpp_draws_as_the_rules_say() -> None:
    r, t, busy, expected = Random(7), 0.0, False, []
    while t < 900:
        stay = r.expovariate(1 / (60 if busy else 200))
        end = min(t + stay, 900)
        x = t
        while True:
            x += r.expovariate((90 if busy else 2) / 60)
            if x > end:
                break
            expected.append(round(x * 1e6))
        t, busy = end, not busy

    assert generate.mmpp(7, on=90, off=2, mean_on=60, mean_off=200, dur=900) == expected
    assert len(expected) > 20


def test_mmpp_draws_nothing_in_a_stay_without_requests() -> None:
    r = Random(3)
    quiet_s = r.expovariate(1 / 100)
    busy_s = r.expovariate(1 / 50)
    first_s = quiet_s + r.expovariate(60 / 60)

    arrivals_us = generate.mmpp(3, on=60, off=0, mean_on=50, mean_off=100, dur=3600)

    assert first_s < quiet_s + busy_s
    assert arrivals_us[0] == round(first_s * 1e6)


def test_diurnal_thins_as_the_rules_say() -> None:
    r, t, lam_max, expected = Random(5), 0.0, 30 * 1.8 / 60, []
    while True:
        t += r.expovariate(lam_max)
        if t > 1200:
            break
        if r.random() * lam_max < 30 * (1 - 0.8 * math.cos(2 * math.pi * t / 600)) / 60:
            expected.append(round(t * 1e6))

    assert generate.diurnal(5, mean=30, depth=0.8, period=600, dur=1200) == expected


def test_spikes_train_draws_as_the_rules_say() -> None:
    r, c, draws = Random(2), 0.0, []
    for _ in range(3):
        c += 600 * (0.8 + 0.4 * r.random())
        draws += [r.normalvariate(c, 30) for _ in range(20)]
    draws.sort()

    assert generate.spikes_train(2, std=30, n=20, count=3, spacing=600) == [round((x - draws[0]) * 1e6) for x in draws]


def test_zipf_keeps_the_arrivals_of_poisson_and_asks_for_the_first_key_most() -> None:
    arrivals_us, keys = generate.zipf(4, rate_per_min=600, duration_s=600, keys=50, exponent=1.0)
    counts = [keys.count(key) for key in range(50)]

    assert arrivals_us == generate.poisson(4, 600, 600)
    assert len(keys) == len(arrivals_us)
    assert counts[0] == max(counts)
    assert counts[0] / len(keys) == pytest.approx(1 / sum(1 / rank for rank in range(1, 51)), rel=0.15)


def test_a_zipf_trace_names_time_key_and_size(capsys: pytest.CaptureFixture[str]) -> None:
    out = generated(capsys, "zipf", "--rate-per-min", "60", "--duration-s", "60", "--keys", "3", "--object-bytes", "9")

    lines = out.splitlines()
    assert lines[0] == "t,key,size"
    assert {line.split(",", 1)[1] for line in lines[1:]} == {"key-1,9", "key-2,9", "key-3,9"}


def test_a_trace_without_a_request_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "generate", "poisson", "--rate-per-min", "0.001", "--duration-s", "1"]) == 0

    captured = capsys.readouterr()
    assert captured.out == "arrival_s\n"
    assert "the trace is empty" in captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("poisson", "--rate-per-min", "0", "--duration-s", "1"), "--rate-per-min '0': expected a number above 0"),
        (("poisson", "--rate-per-min", "nan", "--duration-s", "1"), "--rate-per-min 'nan': expected a number above 0"),
        (("poisson", "--rate-per-min", "3", "--duration-s", "inf"), "--duration-s 'inf': expected a number above 0"),
        (("spike", "--std-s", "-1", "--requests", "5"), "--std-s '-1': expected a number of at least 0"),
        (("spike", "--std-s", "1", "--requests", "0"), "--requests '0': expected a whole number of at least 1"),
        (
            ("diurnal", "--mean-per-min", "1", "--depth", "1.5", "--period-s", "9", "--duration-s", "9"),
            "--depth '1.5': expected a number from 0 to 1",
        ),
    ],
)
def test_a_value_that_makes_no_trace_is_named(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sim", "generate", *arguments]) == 2

    assert message in capsys.readouterr().err
