"""Launches on which accuracy is judged, and what a GPU said of them.

A case file is TOML: each ``[[kernel]]`` is a scenario without parameters (``file``, ``entry``, ``grid``, ``block``,
``arg``, as a scenario writes them) with a ``kind``; each line of its ``case`` table is a launch: a name and the
parameters. A folder's files are all its ``*.toml``; those of ``unseen.toml`` and ``blind*.toml`` were recorded before
any was predicted. Beside them, ``recorded/<gpu>.jsonl`` holds a measured Result a line, without what can be worked out
again. A kernel is `tuned` from the day on which one of its recordings was used to change the model.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warpsim.derivation import gpu_facts
from warpsim.document import at
from warpsim.errors import InputError, WarpsimError
from warpsim.expressions import evaluate
from warpsim.gpu import load_gpu
from warpsim.recordings import find, measure, recordable, stale
from warpsim.replayer import device
from warpsim.result import Result, build_result, write_atomically
from warpsim.scenario import Scenario, load, make

__all__ = [
    "Case", "case_folder", "every_case", "folder_cases", "load_cases", "read_recordings", "record_cases",
    "recorded_cases", "shipped_cases", "tuned_cases",
]  # fmt: skip

_KEYS = {"file", "entry", "kind", "tuned", "grid", "block", "dynamic_shared", "opt_in_shared", "state", "arg", "case"}


@dataclass(frozen=True)
class Case:
    """A launch, the kind of kernel it stands for, and its recording if there is one."""

    name: str
    kind: str
    tuned: bool
    scenario: Scenario = field(repr=False)
    measured: Result | None = field(default=None, repr=False)
    note: str = ""  # why a recording does not hold


def case_folder() -> Path | None:
    """The cases of a checkout or an sdist; a wheel has none."""
    folder = Path(__file__).resolve().parent.parent / "tests" / "accuracy"
    return folder if (folder / "cases.toml").is_file() else None


def load_cases(*paths: Path) -> list[Case]:
    """The launches of case files, in their order."""
    cases: list[Case] = []
    for path in paths:
        with at(path):
            try:
                document = tomllib.loads(path.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
                raise InputError(f"cannot read the case file: {error}") from None
            for number, kernel in enumerate(document.get("kernel", [])):
                with at(f"kernel {number} ({kernel.get('entry', 'no entry')})"):
                    cases += _launches(kernel, path)
    names = [c.name for c in cases]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise InputError(f"{', '.join(map(str, paths))}: cases of the same name: {', '.join(twice)}")
    return cases


def folder_cases(folder: Path) -> list[Case]:
    """The launches of a folder's case files."""
    return load_cases(*sorted(folder.glob("*.toml")))


def _launches(kernel: dict[str, Any], path: Path) -> list[Case]:
    unknown = sorted(set(kernel) - _KEYS)
    lacking = sorted({"file", "entry", "kind", "grid", "block", "case"} - set(kernel))
    if unknown or lacking:
        what = f"unknown key '{unknown[0]}'" if unknown else f"key '{lacking[0]}' is missing"
        raise InputError(f"{what}; a kernel has {', '.join(sorted(_KEYS))}")
    launch = {k: kernel[k] for k in ("grid", "block", "dynamic_shared", "opt_in_shared") if k in kernel}
    shared = {"schema": 1, "entry": kernel["entry"], "kernel": kernel["file"], "launch": launch}
    shared |= {k: kernel[k] for k in ("arg", "state") if k in kernel}
    return [
        Case(
            name,
            kernel["kind"],
            bool(kernel.get("tuned", False)),
            make({**shared, "params": {k: evaluate(v) for k, v in params.items()}}, path, name),
        )
        for name, params in kernel["case"].items()
    ]


def read_recordings(path: Path) -> dict[str, Result]:
    """Measured results by the name of their case."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot read the recordings: {error}") from None
    found = (Result.from_json(line, f"{path}:{n}") for n, line in enumerate(lines, 1) if line.strip())
    return {result.scenario: result for result in found}


def recorded_cases(folder: Path, gpu: str = "h200") -> list[Case]:
    """Every case of a folder's case files with its recording, or a note that says why it has none."""
    file = folder / "recorded" / f"{gpu}.jsonl"
    recordings = read_recordings(file) if file.is_file() else {}
    return [_joined(case, recordings.get(case.name), gpu) for case in folder_cases(folder)]


def shipped_cases(gpu: str = "h200") -> list[Case]:
    """The shipped scenarios with their recordings; their times were looked at while the model was made."""
    cases = []
    for name in recordable():
        scenario = load(name)
        kind = scenario.document.kernel or name
        case = Case(name, f"shipped {Path(kind).stem}", True, scenario)
        cases.append(_joined(case, find(scenario.bind(), gpu), gpu))
    return cases


def tuned_cases(folder: Path, gpu: str = "h200") -> list[Case]:
    """Launches of ``kernels/tuned.cu`` with their counters: the model's figures were chosen on these."""
    path = folder / "recorded" / f"{gpu}-tuned.jsonl"
    cases = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        line = json.loads(text)
        shape = {k: line[k] for k in ("grid", "block", "dynamic_shared") if k in line} | {"opt_in_shared": True}
        document = {"schema": 1, "entry": line["entry"], "kernel": "kernels/tuned.cu"}
        document |= {"launch": shape, "arg": line["arg"]}
        measured = build_result(
            scenario=line["case"], kernel=line["entry"], source="measured", gpu=gpu_facts(load_gpu(gpu)), launch=shape,
            metrics=line["metrics"], extra={}, recording={"noisy": line.get("noisy", False)},
        )  # fmt: skip
        scenario = make(document, folder / "cases.toml", line["case"])
        cases.append(Case(line["case"], line["kind"], True, scenario, measured))
    return cases


def every_case(gpu: str = "h200") -> list[Case]:
    """All recorded launches: those of the case file, the tuned ones, the shipped scenarios."""
    folder = case_folder()
    if folder is None:
        raise InputError("no cases here: they come with the source")
    return [*recorded_cases(folder, gpu), *tuned_cases(folder, gpu), *shipped_cases(gpu)]


def _joined(case: Case, measured: Result | None, gpu: str) -> Case:
    if measured is None:
        return dataclasses.replace(case, note=f"not recorded on {gpu}")
    note = "changed since it was recorded" if stale(measured, case.scenario.bind()) else ""
    return dataclasses.replace(case, measured=measured, note=note)


def record_cases(
    cases: Sequence[Case], target: Path, *, repetitions: int = 20, limit: float | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[str]:  # fmt: skip
    """Measure cases on the GPU into a file of recordings, written anew after each; what failed, a line each.

    Recordings that the file already has of other cases stay.
    """
    kept = read_recordings(target) if target.exists() else {}
    failures: list[str] = []
    target.parent.mkdir(parents=True, exist_ok=True)
    say(f"{len(cases)} cases on {device()['device']}")
    done = 0
    launches = [c.scenario.bind() for c in cases]
    for case, result in zip(cases, measure(launches, repetitions=repetitions, limit=limit, say=say), strict=False):
        done += 1
        if isinstance(result, WarpsimError):
            failures.append(f"{case.name}: {result}")
            say(failures[-1])
            continue
        kept[case.name] = result
        write_atomically(target, "".join(_line(r) + "\n" for r in kept.values()))
        say(f"{case.name}: {result.time_ns / 1e3:.2f} us")
    failures += [f"{case.name}: not measured, the time limit was reached" for case in cases[done:]]
    return failures


def _line(result: Result) -> str:
    """A recording as small as it can be: what follows from the metrics and the sampled outputs are left out."""
    large = ("samples", "other_counters", "unavailable")  # .avg, .max, .min of the metrics; properties of the device
    recording = {k: v for k, v in result.recording.items() if k not in large}
    small = dataclasses.replace(result, derived={}, lines=[], findings=[], recording=recording)
    return json.dumps(small.to_dict(), separators=(",", ":"))


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m warpsim.cases FILE``: measure the cases on this machine's GPU into a file of recordings."""
    parser = argparse.ArgumentParser(prog="python -m warpsim.cases", description=main.__doc__)
    parser.add_argument("target", type=Path, metavar="FILE")
    parser.add_argument("--cases", type=Path, metavar="FILE", help="case file instead of those of tests/accuracy")
    parser.add_argument("--only", metavar="TEXT", help="only cases with TEXT in their names")
    parser.add_argument("--missing", action="store_true", help="only cases that FILE does not have")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="begin nothing new after so many seconds")
    parser.add_argument("--repetitions", type=int, default=20)
    given = parser.parse_args(arguments)
    try:
        folder = case_folder()
        if given.cases is None and folder is None:
            raise InputError("no cases here: they come with the source, or with --cases FILE")
        cases = load_cases(given.cases) if given.cases else folder_cases(folder)  # type: ignore[arg-type]
        have = read_recordings(given.target) if given.missing and given.target.exists() else {}
        cases = [c for c in cases if (given.only or "") in c.name and c.name not in have]
        failures = record_cases(cases, given.target, repetitions=given.repetitions, limit=given.limit, say=_say)
    except WarpsimError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    for line in failures:
        print(f"error: {line}", file=sys.stderr)
    return 1 if failures else 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
