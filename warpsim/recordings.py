"""Measuring scenarios and keeping what a GPU said: `scenarios/recorded/<gpu>/<scenario>.json`.

`measure` drives the worker processes of `warpsim.replayer`, in groups, and yields a measured Result (or the error) for
each launch. `record` writes them. A recording carries driver, CUDA, clocks, date and a hash of everything that decides
what runs; it is stale once that hash differs.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsim.counters import PROFILED, CountersUnavailableError, collect
from warpsim.errors import InputError, KernelError, WarpsimError
from warpsim.launch import BufferArg, Launch
from warpsim.library import folder as shipped
from warpsim.library import list_scenarios
from warpsim.metrics import METRICS, OPTIONAL
from warpsim.replayer import Job, device, require_gpu
from warpsim.result import Result, build_result, write_atomically

if TYPE_CHECKING:
    from warpsim.scenario import Scenario

__all__ = [
    "Recorded",
    "check_all",
    "find",
    "launch_hash",
    "measure",
    "record",
    "recordable",
    "recorded_folder",
    "recording_path",
    "replay",
    "stale",
    "why_stale",
]

GROUP = 16  # launches a worker gets at a time: what a crash or a time limit can cost
STUCK = 180  # seconds after which a worker is taken to hang
WHOLE = 16 << 30  # buffers up to this are allocated whole, without asking the simulator what is touched
EXTRA = ("sm__cycles_elapsed.avg.per_second", "lts__cycles_elapsed.avg.per_second")  # kept beside the metrics

Say = Callable[[str], None]


@dataclass
class Recorded:
    """What `record` did: files written, and one line for each scenario that failed."""

    written: list[Path] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def record(
    scenarios: Sequence[Scenario | str] | None = None,
    *,
    params: Mapping[str, Any] | None = None,
    folder: str | Path | None = None,
    counters: bool = True,
    repetitions: int = 20,
    only_stale: bool = False,
    limit: float | None = None,
    say: Say | None = None,
) -> Recorded:
    """Run scenarios (all shipped ones by default) on the GPU and write their recordings.

    `folder` takes the place of ``scenarios/recorded``; `only_stale` leaves out what has a recording that still holds;
    after `limit` seconds no further group is begun. Each file is written as soon as its group is measured.
    """
    require_gpu()
    from warpsim.scenario import load

    say = say or (lambda _: None)
    gpu = device()["profile"]
    root = Path(folder) if folder is not None else shipped("scenarios") / "recorded"
    loaded = [load(s) if isinstance(s, str) else s for s in (scenarios or recordable())]
    report = Recorded()
    launches = []
    for scenario in loaded:
        try:
            launch = scenario.bind(params)
        except InputError as error:
            report.failures.append(str(error))
            continue
        if not (only_stale and not why_stale(launch, gpu, root, default=scenario.params)):
            launches.append((launch, scenario.params))
    (root / gpu).mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    for (launch, default), result in zip(
        launches,
        measure([x for x, _ in launches], counters=counters, repetitions=repetitions, limit=limit, say=say),
        strict=False,
    ):
        if isinstance(result, WarpsimError):
            report.failures.append(str(result))
            say(f"{launch.name}: {result}")
            continue
        path = recording_path(launch, gpu, root, default=default)
        write_atomically(path, result.to_json() + "\n")
        report.written.append(path)
        say(f"{time.monotonic() - began:6.1f} s  {launch.name}: {result.time_ns / 1e3:.2f} us")
    left = len(launches) - len(report.written) - len(report.failures)
    if left > 0:
        report.failures.append(
            f"{left} scenarios not measured: the time limit of {limit:g} s was reached"
            if limit is not None
            else f"{left} scenarios not measured"
        )
    return report


def replay(
    scenario: Scenario | Launch | str,
    *,
    gpu: str | None = None,
    params: Mapping[str, Any] | None = None,
    counters: bool = True,
) -> Result:
    """Run a scenario on the GPU and return what the hardware said; `gpu`, if given, must be the GPU that is there."""
    from warpsim.scenario import load

    require_gpu()
    if isinstance(scenario, str):
        scenario = load(scenario)
    launch = scenario if isinstance(scenario, Launch) else scenario.bind(params)
    result = next(iter(measure([launch], counters=counters)))
    if isinstance(result, WarpsimError):
        raise result
    if gpu is not None and result.gpu != gpu:
        raise InputError(f"gpu {gpu}: the GPU here is {result.gpu}")
    return result


def measure(
    launches: Sequence[Launch],
    *,
    counters: bool = True,
    repetitions: int = 20,
    limit: float | None = None,
    say: Say | None = None,
) -> Iterator[Result | WarpsimError]:
    """A measured Result or the error of each launch, in order; after `limit` seconds it ends early."""
    say = say or (lambda _: None)
    facts = device()
    began = time.monotonic()
    reason = "" if counters else "not asked for"
    for first in range(0, len(launches), GROUP):
        if limit is not None and time.monotonic() - began > limit:
            return
        group = list(launches[first : first + GROUP])
        job = Job(tuple(group), tuple(_touched(x) for x in group), repetitions)
        timed = _run(job, lambda command: _plain(command))
        found: dict[int, dict[str, Any]] = {}
        for cache, replay, members in _modes(group):
            if reason:
                break
            try:
                found |= _count(job, members, cache, replay)
            except CountersUnavailableError as error:
                reason = str(error)
                say(reason)
        for index, launch in enumerate(group):
            yield _result(launch, facts, timed[index], found.get(index), reason)


def _modes(group: Sequence[Launch]) -> list[tuple[str, str, list[int]]]:
    """(cache control, replay mode, members); caches in a state of their own at each pass need application replay."""
    cold = [i for i, launch in enumerate(group) if launch.state.caches == "cold"]
    other = [i for i, launch in enumerate(group) if launch.state.caches != "cold"]
    return [m for m in (("all", "kernel", cold), ("none", "application", other)) if m[2]]


def _touched(launch: Launch) -> dict[str, int]:
    """Bytes of opaque buffers up to the last one touched, asked of the simulator where whole buffers would be large."""
    if sum(b.bytes for b in launch.allocations) <= WHOLE or all(not b.opaque for b in launch.allocations):
        return {}
    from warpsim.simulator import simulate_bound

    result = simulate_bound(launch, exact=False, timeline=False)
    return {str(b["name"]): int(b["touched"]) for b in result.buffers if "touched" in b}


def _plain(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=STUCK, check=False)
    except subprocess.TimeoutExpired:
        return f"no end within {STUCK} s"
    return done.stderr.strip().splitlines()[-1] if done.returncode and done.stderr.strip() else ""


def _run(job: Job, runner: Callable[[Sequence[str]], str]) -> dict[int, dict[str, Any]]:
    """Lines of the timing worker by launch; a worker that died is started again after the launch that killed it."""
    lines: dict[int, dict[str, Any]] = {}
    first = 0
    with tempfile.TemporaryDirectory(prefix="warpsim-") as scratch:
        while first < len(job.launches):
            said = runner(_command("time", dataclasses.replace(job, first=first), Path(scratch)))
            new, begun = _lines(Path(scratch) / "out")
            lines |= new
            if begun is not None and begun not in lines:
                lines[begun] = {"error": f"{job.launches[begun].name}: the GPU run died: {said or 'no message'}"}
            reached = max(lines, default=-1)
            if reached < first:
                raise KernelError(f"the replay worker does not start: {said or 'no message'}")
            first = reached + 1
    return lines


def _command(mode: str, job: Job, scratch: Path) -> list[str]:
    (scratch / "job").write_bytes(pickle.dumps(job))
    (scratch / "out").unlink(missing_ok=True)
    return [sys.executable, "-m", "warpsim.replayer", mode, str(scratch / "job"), str(scratch / "out")]


def _lines(out: Path) -> tuple[dict[int, dict[str, Any]], int | None]:
    """Finished launches of a worker's output, and the last one it began."""
    done: dict[int, dict[str, Any]] = {}
    begun = None
    for text in out.read_text(encoding="utf-8").splitlines() if out.exists() else []:
        try:
            line = json.loads(text)
        except ValueError:  # cut off when the worker was killed
            continue
        if line.get("begun"):
            begun = int(line["index"])
        else:
            done[int(line["index"])] = line
    return done, begun


def _count(job: Job, members: list[int], cache: str, replay: str) -> dict[int, dict[str, Any]]:
    """Counters of some launches of a job: index -> metrics, info."""
    waiting = list(members)
    found: dict[int, dict[str, Any]] = {}
    while waiting:
        part = dataclasses.replace(
            job,
            launches=tuple(job.launches[i] for i in waiting),
            touched=tuple(job.touched[i] for i in waiting),
            first=0,
        )
        with tempfile.TemporaryDirectory(prefix="warpsim-") as scratch:
            command = _command("count", part, Path(scratch))
            profiled = collect(command, (*PROFILED, *EXTRA), cache=cache, replay=replay, timeout=60 + 20 * len(waiting))
            lines, begun = _lines(Path(scratch) / "out")
        good = [i for i in sorted(lines) if "error" not in lines[i]]
        if len(profiled) != len(good):
            if len(waiting) == 1:
                return found
            half = len(waiting) // 2  # which launch belongs to which line is not certain: try fewer at a time
            return found | _count(job, waiting[:half], cache, replay) | _count(job, waiting[half:], cache, replay)
        for at, kernel in zip(good, profiled, strict=True):
            launch = job.launches[waiting[at]]
            if kernel.grid != launch.grid or kernel.block != launch.block:
                raise KernelError(
                    f"{launch.name}: ncu reports {kernel.kernel} with grid {kernel.grid}, launched was {launch.grid}"
                )
            found[waiting[at]] = {"info": lines[at], "metrics": kernel.metrics, "unavailable": list(kernel.unavailable)}
        reached = max([*lines, -1 if begun is None else begun])
        waiting = waiting[reached + 1 :] if reached >= 0 else []
    return found


def _result(
    launch: Launch, facts: Mapping[str, Any], timed: Mapping[str, Any], counted: Mapping[str, Any] | None, reason: str
) -> Result | WarpsimError:
    if "error" in timed:
        return KernelError(str(timed["error"]))
    times = timed["time"]
    metrics: dict[str, int | float] = {}
    other: dict[str, Any] = {}
    uncertainty: dict[str, Any] = {}
    info = timed
    if counted is not None:
        info = counted["info"]
        for name, value in counted["metrics"].items():
            if name not in METRICS:
                other[name] = value
            elif value or name not in OPTIONAL:
                metrics[name] = value
    else:
        metrics["gpu__time_duration.sum"] = 1e3 * times["event_us"]
        uncertainty["gpu__time_duration.sum"] = {
            "half_width": 3500.0,
            "why": "CUDA events include some 3 to 7 us of launch overhead",
        }
    clock = other.get("sm__cycles_elapsed.avg.per_second", 0) / 1e6 or times["clocks"].get("sm_mhz", 0.0)
    cycles, duration = metrics.get("sm__cycles_elapsed.max"), metrics["gpu__time_duration.sum"]
    noisy = bool(cycles and clock and abs(cycles / clock * 1e3 / duration - 1) > 0.05)
    recording = {
        **{key: facts[key] for key in ("device", "driver", "cuda", "cupy")},
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "hash": launch_hash(launch),
        **times,
        "counters": "ncu" if counted is not None else f"none: {reason or 'ncu gave no values for this launch'}",
        "other_counters": other,
        "noisy": noisy,
        "samples": timed.get("samples", {}),
    }
    if counted is not None and counted["unavailable"]:
        recording["unavailable"] = counted["unavailable"]
    return build_result(
        scenario=launch.name, kernel=launch.entry, source="measured", gpu=_gpu_facts(facts, clock),
        launch=info["launch"], metrics=metrics, extra={}, params=launch.params,
        state=dataclasses.asdict(launch.state), buffers=info["buffers"],
        compiler=facts["compiler"], clock_mhz=clock, uncertainty=uncertainty, recording=recording,
    )  # fmt: skip


def _gpu_facts(facts: Mapping[str, Any], clock: float) -> dict[str, Any]:
    try:
        from warpsim.derivation import gpu_facts
        from warpsim.gpu import load_gpu

        return dict(gpu_facts(load_gpu(facts["profile"])))
    except InputError:  # a GPU without a profile: no peaks to relate figures to
        return {
            "name": facts["profile"],
            "title": facts["device"],
            "checked": True,
            "assumed": [],
            "sms": facts["sms"],
            "clock_mhz": clock,
        }


def launch_hash(launch: Launch) -> str:
    """Hash of everything that decides what runs and what it touches; comments in the scenario file do not count."""
    parts: list[Any] = [
        launch.source, launch.entry, launch.grid, launch.block, launch.dynamic_shared, launch.opt_in_shared,
        launch.compile.std, launch.compile.options, sorted(launch.compile.define.items()),
        dataclasses.astuple(launch.state),
    ]  # fmt: skip
    for argument in launch.arguments:
        if argument.struct:
            parts.append((argument.struct, argument.element and argument.element.name))
        if not isinstance(argument, BufferArg):
            parts.append((argument.name, argument.value))
            continue
        parts.append((argument.name, argument.dtype, argument.count, argument.alias_of, argument.offset))
        if (fill := argument.fill) is not None:
            parts.append((fill.kind, fill.high, fill.seed, fill.expression, sorted(fill.names.items()), fill.values))
            if fill.path is not None:
                parts.append(hashlib.sha256(fill.path.read_bytes()).hexdigest())
            if fill.array is not None:
                parts.append(hashlib.sha256(fill.array.tobytes()).hexdigest())
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def recordable() -> list[str]:
    """Names of the shipped scenarios that a GPU can run: all but the faults."""
    return list(list_scenarios())


def recorded_folder(gpu: str, root: Path | None = None) -> Path:
    """Where recordings of that GPU lie."""
    return (root if root is not None else shipped("scenarios") / "recorded") / gpu


def recording_path(
    launch: Launch, gpu: str, root: Path | None = None, *, default: Mapping[str, Any] | None = None
) -> Path:
    """The file of a launch's recording; parameters that are not the scenario's own are in its name."""
    changed = {k: v for k, v in launch.params.items() if default is not None and default.get(k) != v}
    suffix = "".join(f"@{k}={v}" for k, v in sorted(changed.items()))
    return recorded_folder(gpu, root) / f"{launch.name}{suffix}.json"


def find(
    launch: Launch, gpu: str, root: Path | None = None, *, default: Mapping[str, Any] | None = None
) -> Result | None:
    """The recording of a launch on that GPU, if there is one."""
    path = recording_path(launch, gpu, root, default=default)
    return Result.load(path) if path.exists() else None


def stale(result: Result, launch: Launch) -> bool:
    """Whether a recording is of another kernel, launch or contents than the scenario now says."""
    return bool(result.recording.get("hash") != launch_hash(launch))


def why_stale(launch: Launch, gpu: str, root: Path | None = None, *, default: Mapping[str, Any] | None = None) -> str:
    """Why a launch must be recorded (again), or nothing if its recording holds."""
    result = find(launch, gpu, root, default=default)
    if result is None:
        return f"{launch.name}: not recorded on {gpu}"
    if stale(result, launch):
        date = result.recording.get("date", "?")
        return f"{launch.name}: recorded on {date}, and changed since: warpsim record {launch.name}"
    if result.missing:
        return f"{launch.name}: the recording lacks {', '.join(result.missing[:3])}"
    return ""


def check_all(scenarios: Iterable[Scenario], gpu: str) -> list[str]:
    """One line for each scenario whose recording is missing or stale."""
    return [line for s in scenarios if (line := why_stale(s.bind(), gpu, default=s.params))]
