"""How long the import of each function of `template.yaml` takes, and how large its package is.

`cold_path` has the rest of a cold start.

Each import has a Python process of its own. A round imports everything once: each function's handler, what a program
has of `burstcache.results`, and bare the libraries that each of them imports, so that what else runs on the machine
weighs on all alike. Printed are medians by the clock and by the processor's time, which other work moves less, and the
modules whose import costs most by themselves. Packages are put together as `sam build` does it, for Python 3.14 on ARM.

    python -m benchmarks.import_time [--runs 7] [--top 3] [--only-imports]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from samtranslator.yaml_helper import yaml_parse

from benchmarks.support.common import PROJECT, environment
from burstcache_terminal.text import table_text

_OF_PROGRAMS = (
    "burstcache.client.boto3_wrapper",
    "burstcache.results.decorator",
    "burstcache.results.stores.redis_store",
)
_LIBRARIES = ("botocore.session", "boto3", "nats", "redis", "aws_lambda_powertools")
# nats-py and redis-py import them if they find them; the local run has them, the deployed package does not.
_AS_DEPLOYED = "import sys; sys.modules['aiohttp'] = sys.modules['cryptography'] = None"
_IMPORT = f"""
{_AS_DEPLOYED}
import time
started_s, used_s = time.perf_counter(), time.process_time()
import {{modules}}
took_s, used_s = time.perf_counter() - started_s, time.process_time() - used_s
print(took_s * 1000, used_s * 1000, *[name for name in {_LIBRARIES} if name in sys.modules])
"""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the template.

    Attributes:
        name: Its logical ID.
        module: Of its handler.
        code: The folder of its code, in the project.
    """

    name: str
    module: str
    code: str


class Took(NamedTuple):
    """What an import takes, by the clock and of a processor's time [ms]."""

    clock_ms: float
    cpu_ms: float


@dataclass(frozen=True, slots=True)
class Package:
    """What is deployed of a folder of code, with the libraries that its requirements name.

    Attributes:
        code: The folder, in the project.
        files_bytes: The sum of its files.
        zip_bytes: The same compressed, as SAM CLI uploads it.
    """

    code: str
    files_bytes: int
    zip_bytes: int


def functions() -> list[Function]:
    """Return the functions of the template, in its order."""
    template = yaml_parse((PROJECT / "template.yaml").read_text())
    shared = template["Globals"]["Function"]
    return [
        Function(
            name,
            resource["Properties"]["Handler"].rpartition(".")[0],
            resource["Properties"].get("CodeUri") or shared["CodeUri"],
        )
        for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::Serverless::Function"
    ]


def imported(*modules: str) -> tuple[Took, tuple[str, ...]]:
    """Return the import time of modules in a new process, and the libraries that came with them."""
    clock_ms, cpu_ms, *libraries = _run("-c", _IMPORT.format(modules=", ".join(modules))).stdout.split()
    return Took(float(clock_ms), float(cpu_ms)), tuple(libraries)


def packages(folders: Iterable[str]) -> Iterator[Package]:
    """Yield the packages of folders of code, each once."""
    for folder in dict.fromkeys(folders):
        with tempfile.TemporaryDirectory() as made:
            yield _package(folder, Path(made))


def _package(folder: str, made: Path) -> Package:
    install = [
        str(Path(sys.executable).with_name("uv")),
        "pip",
        "install",
        "-q",
        "--require-hashes",
        "--target",
        str(made),
    ]
    install += ["--python-version", "3.14", "--python-platform", "aarch64-manylinux2014", "--only-binary", ":all:"]
    subprocess.run([*install, "-r", str(PROJECT / folder / "requirements.txt")], check=True)
    shutil.copytree(
        PROJECT / folder, made, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    files = [path for path in sorted(made.rglob("*")) if path.is_file()]
    with tempfile.TemporaryFile() as package:
        with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for path in files:
                archive.write(path, path.relative_to(made))
        return Package(folder, sum(path.stat().st_size for path in files), package.tell())


def _dearest_modules(module: str, top: int) -> list[str]:
    """Return the modules with the largest share of an import [ms]; measuring slows all of them a little."""
    lines = _run("-X", "importtime", "-c", f"{_AS_DEPLOYED}; import {module}").stderr.splitlines()[1:]
    parts = [line.removeprefix("import time:").split("|") for line in lines if line.startswith("import time:")]
    own = [(int(own_us) / 1000, name.strip()) for own_us, _, name in parts if own_us.strip().isdigit()]
    return [f"{name} {own_ms:.0f}" for own_ms, name in sorted(own, reverse=True)[:top]]


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = f"{PROJECT / 'src'}{os.pathsep}{PROJECT / 'cloudformation'}"
    variables = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": ""}  # only the first import compiles
    return subprocess.run([sys.executable, *arguments], env=variables, capture_output=True, text=True, check=True)


def _medians(took: Sequence[Took]) -> tuple[str, str]:
    return (
        f"{statistics.median(each.clock_ms for each in took):.0f}",
        f"{statistics.median(each.cpu_ms for each in took):.0f}",
    )


def main() -> None:
    """Print a table of imports and one of packages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7, help="rounds, each with one process per import (default 7)")
    parser.add_argument("--top", type=int, default=3, help="modules to name per function (default 3)")
    parser.add_argument("--only-imports", action="store_true", help="do not put packages together")
    arguments = parser.parse_args()
    print(environment())
    known = functions()
    names = {function.module: function.name for function in known} | dict.fromkeys(_OF_PROGRAMS, "a program")
    libraries = {module: imported(module)[1] for module in names}  # this compiles what is not yet compiled, too
    took: dict[tuple[str, ...], list[Took]] = {}
    for _ in range(arguments.runs):
        for modules in dict.fromkeys([*((module,) for module in names), *filter(None, libraries.values()), ("boto3",)]):
            took.setdefault(modules, []).append(imported(*modules)[0])
    rows = [
        (
            name,
            module.removeprefix("burstcache."),
            *_medians(took[module,]),
            ", ".join(libraries[module]),
            *(_medians(took[libraries[module]]) if libraries[module] else ("", "")),
            ", ".join(_dearest_modules(module, arguments.top)),
        )
        for module, name in names.items()
    ]
    header = ("of", "module", "ms", "CPU", "libraries", "ms", "CPU", "dearest modules, ms")
    print(table_text(header, [*rows, ("", "", "", "", "boto3", *_medians(took["boto3",]), "")], right=(2, 3, 5, 6)))
    if not arguments.only_imports:
        cells = [
            (package.code, f"{package.files_bytes / 1e6:.1f}", f"{package.zip_bytes / 1e6:.2f}")
            for package in packages(function.code for function in known)
        ]
        print(table_text(("package of", "files, MB", "zip, MB"), cells, right=(1, 2)))


if __name__ == "__main__":
    main()
