"""How far the model is from a GPU: every recorded launch simulated, and the errors as one table.

``python -m warpsim.accuracy`` simulates each case (`warpsim.cases`) at the buffer addresses of its recording. The table
holds errors of time, hit rates and DRAM traffic, counts that must be equal, errors by kind of kernel and the worst ten,
apart for kernels whose recordings were used to change the model (tuned) and for those that it never saw (untuned).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsim.cache import digest
from warpsim.cases import Case, every_case
from warpsim.errors import WarpsimError
from warpsim.gpu import load_gpu
from warpsim.metrics import METRICS, global_requests, global_sectors, shared_wavefronts
from warpsim.result import write_atomically
from warpsim.uncertainty import expected, intervals, limiter_class

if TYPE_CHECKING:
    from warpsim.gpu import Gpu

__all__ = ["Row", "fingerprint", "predict", "run", "table"]

TIME, READS, WRITES = "gpu__time_duration.sum", "dram__sectors_read.sum", "dram__sectors_write.sum"
L1 = tuple(f"l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_{x}.sum" for x in ("hit", "miss"))
L2 = tuple(f"lts__t_sectors_srcunit_tex_lookup_{x}.sum" for x in ("hit", "miss"))
LONG = 10_000  # ns: launches shorter than this are told apart from noise by their own line only
HEAVY = 60e6 / 32  # sectors: DRAM traffic from which its error is judged
SHARED_BOUND = 0.8  # share of the cycles with a shared-memory wavefront that makes a kernel bound by shared memory


@dataclass(frozen=True)
class Row:
    """A case, predicted and measured; `busy` is the share of the time that each component of the machine works."""

    name: str
    kind: str
    tuned: bool
    gpu: str
    model: str
    measured: Mapping[str, float]
    predicted: Mapping[str, float]
    busy: Mapping[str, float]
    touched: int = 0  # bytes of its buffers
    noisy: bool = False
    seconds: float = 0.0
    error: str = ""

    @property
    def ns(self) -> float:
        """Measured time."""
        return float(self.measured[TIME])

    @property
    def time_error(self) -> float:
        """Signed, in percent."""
        return self.ratio(TIME, 1.0) * 100 - 100

    def ratio(self, metric: str, empty: float = float("nan")) -> float:
        """Predicted over measured."""
        return self.predicted[metric] / self.measured[metric] if self.measured.get(metric) else empty

    def points(self, pair: Sequence[str]) -> float:
        """Error of a hit rate in points; NaN without look-ups."""
        return hit_rate(self.predicted, pair) - hit_rate(self.measured, pair)

    @property
    def shared_bound(self) -> bool:
        """Whether the measurement shows a shared-memory wavefront on most cycles of an SM."""
        wavefronts = sum(self.measured.get(shared_wavefronts(op), 0) for op in ("ld", "st"))
        return wavefronts / load_gpu(self.gpu).sm.count > SHARED_BOUND * self.measured["sm__cycles_elapsed.max"]

    @property
    def unequal(self) -> list[str]:
        """Counts that must be equal and are not."""
        names = (n for n in self.measured if METRICS[n].agreement == "exact" and n in self.predicted)
        return [
            f"{n} {self.predicted[n]:.0f} for {self.measured[n]:.0f}"
            for n in names
            if self.predicted[n] != self.measured[n]
        ]


def hit_rate(metrics: Mapping[str, float], pair: Sequence[str]) -> float:
    """Percent; where only hits were counted, all load sectors take the place of the sum."""
    hit = metrics.get(pair[0], 0)
    whole = hit + metrics[pair[1]] if pair[1] in metrics else metrics.get(global_sectors("ld"), 0)
    return 100 * hit / whole if whole else float("nan")


@cache
def fingerprint() -> str:
    """Of all that decides a prediction: the package's sources and profiles."""
    folder = Path(__file__).parent
    parts = [p for sub in ("frontend", "machine", "gpus") for p in sorted((folder / sub).iterdir()) if p.is_file()]
    parts += [folder / n for n in ("simulator.py", "coalescing.py", "gpu.py")]
    return digest(*(p.read_bytes() for p in parts))[:16]


def predict(case: Case, gpu: Gpu | None = None) -> Row:
    """Simulate a recorded case at its recorded addresses; an error of the simulation is told in the row."""
    from warpsim.simulator import simulate_bound

    recorded = case.measured
    assert recorded is not None
    began = time.process_time()
    common = (case.name, case.kind, case.tuned, recorded.gpu, fingerprint(), recorded.metrics)
    noisy = bool(recorded.recording.get("noisy"))
    try:
        addresses = {b["name"]: b["address"] for b in recorded.buffers if b.get("address")}
        own = {b.name for b in case.scenario.bind().allocations}
        launch = case.scenario.bind(addresses={k: v for k, v in addresses.items() if k in own} or None)
        busy: dict[str, float] = {}
        result = simulate_bound(
            launch, gpu=gpu or load_gpu(recorded.gpu), timeline=False, watch=lambda _, __, m: busy.update(m.busy)
        )
    except (WarpsimError, MemoryError) as error:
        return Row(*common, {}, {}, noisy=noisy, error=f"{type(error).__name__}: {error}")
    touched = sum(int(b.get("touched", 0)) for b in result.buffers)
    shares = {k: round(v, 4) for k, v in busy.items()}
    return Row(*common, result.metrics, shares, touched, noisy, round(time.process_time() - began, 2))


def run(cases: Sequence[Case], *, jobs: int = 1, gpu: Gpu | None = None) -> Iterator[Row]:
    """Rows as they come."""
    if jobs == 1:
        yield from (predict(case, gpu) for case in cases)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(predict, case, gpu) for case in cases]):
            yield done.result()


def cost(case: Case) -> float:
    """What its simulation costs, in warp instructions: a request costs as much as some ten."""
    assert case.measured is not None
    metrics = case.measured.metrics
    asked = sum(metrics.get(global_requests(op), 0) for op in ("ld", "st", "atom", "red"))
    return metrics["smsp__inst_executed.sum"] + 10 * asked


# -- the table ------------------------------------------------------------------------------------------------------


def spread(errors: Sequence[float]) -> dict[str, float]:
    """Mean, median and 90th percentile of absolute errors, the share within 15, the mean of signed ones."""
    values = np.asarray([e for e in errors if not np.isnan(e)], float)
    if not len(values):
        return {"cases": 0}
    size = np.abs(values)
    return {
        "cases": len(values),
        "mean": float(size.mean()),
        "median": float(np.median(size)),
        "p90": float(np.percentile(size, 90)),
        "worst": float(size.max()),
        "within_15": float((size <= 15).mean() * 100),
        "bias": float(values.mean()),
    }


def table(rows: Sequence[Row]) -> dict[str, Any]:
    """Everything the text shows, by name."""
    good = [r for r in rows if not r.error]
    long = [r for r in good if r.ns >= LONG and r.kind != "simple"]
    between = [r for r in long if 44e6 <= r.touched <= 64e6]
    figures = {
        "time (%)": [r.time_error for r in long],
        "L1 hit rate (points)": [r.points(L1) for r in long],
        "L2 hit rate (points)": [r.points(L2) for r in long if r not in between],
        "L2 hit rate, 44 to 64 MB touched (points)": [r.points(L2) for r in between],
        "DRAM reads over 60 MB (%)": [100 * r.ratio(READS) - 100 for r in long if r.measured[READS] > HEAVY],
        "DRAM writes over 60 MB (%)": [100 * r.ratio(WRITES) - 100 for r in long if r.measured[WRITES] > HEAVY],
        "time, bound by shared memory (%)": [r.time_error for r in good if r.ns >= LONG and r.shared_bound],
        "cycles, simple workloads (%)": [
            100 * r.ratio("sm__cycles_elapsed.max") - 100 for r in good if r.kind == "simple"
        ],
        "time, shorter than 10 us (%)": [r.time_error for r in good if r.ns < LONG and r.kind != "simple"],
    }
    kinds = sorted({r.kind for r in long})
    worst = sorted(long, key=lambda r: -abs(r.time_error))[:10]
    return {
        "cases": len(rows),
        "figures": {name: spread(errors) for name, errors in figures.items()},
        "kinds": {k: spread([r.time_error for r in long if r.kind == k]) for k in kinds},
        "inside": _inside(good),
        "worst": [{"name": r.name, "us": r.ns / 1e3, "error": r.time_error, "busy": dict(r.busy)} for r in worst],
        "unequal": {r.name: r.unequal for r in good if r.unequal},
        "noisy": [r.name for r in good if r.noisy],
        "failed": {r.name: r.error for r in rows if r.error},
    }


def _inside(rows: Sequence[Row]) -> float | None:
    """Percent of launches whose measured time lies in the interval that the prediction states."""
    stated = [(r, expected(r.gpu, r.busy, r.predicted[TIME])) for r in rows]
    known = [abs(r.ns / r.predicted[TIME] - 1) <= e[TIME]["relative"] for r, e in stated if e]
    return 100 * sum(known) / len(known) if known else None


def lines(title: str, content: Mapping[str, Any], *, detail: bool = True) -> Iterator[str]:
    """A table as text; `detail` adds the kinds of kernel and the cases that stand out."""
    yield f"\n{title}: {content['cases']} cases, {len(content['unequal'])} with unequal counts"
    columns = ("cases", "mean", "median", "p90", "worst", "within_15", "bias")
    yield f"  {'absolute error':44s}" + "".join(f"{c:>10s}" for c in columns)
    kinds = [(f"time, {k} (%)", v) for k, v in content["kinds"].items()] if detail else []
    for name, s in [*content["figures"].items(), *kinds]:
        if s["cases"]:
            yield f"  {name:44s}{s['cases']:10d}" + "".join(f"{s[c]:10.2f}" for c in columns[1:])
    if content["inside"] is not None:
        yield f"  {content['inside']:.0f} % of the times lie in the interval stated with them"
    if not detail:
        return
    yield "  the worst:"
    for w in content["worst"]:
        busy = ", ".join(f"{k} {v:.0%}" for k, v in sorted(w["busy"].items(), key=lambda x: -x[1])[:3])
        yield f"    {w['name']:36s}{w['us']:9.1f} us {w['error']:+7.1f} %  {busy}"
    for name, what in content["unequal"].items():
        yield f"  unequal: {name}: {'; '.join(what)}"
    for name, what in content["failed"].items():
        yield f"  failed: {name}: {what}"
    if content["noisy"]:
        yield f"  measured unsteadily: {', '.join(content['noisy'])}"


def case_line(r: Row) -> str:
    """One case on one line."""
    if r.error:
        return f"{r.name:36s} {r.kind:24s} failed: {r.error}"
    busy = " ".join(f"{k} {v:.0%}," for k, v in sorted(r.busy.items(), key=lambda x: -x[1])[:4]).rstrip(",")
    hits = " ".join(
        f"{n} {hit_rate(r.predicted, p):5.1f}/{hit_rate(r.measured, p):5.1f}" for n, p in (("L1", L1), ("L2", L2))
    )
    return (
        f"{r.name:36s} {r.kind:24s} {'tuned' if r.tuned else '':5s} {r.ns / 1e3:9.1f} {r.predicted[TIME] / 1e3:9.1f} us"
        f" {r.time_error:+7.1f} %  {hits}  rd {r.ratio(READS):6.3f} wr {r.ratio(WRITES):6.3f}"
        f" MB {r.measured[READS] * 32e-6:.0f}/{r.measured[WRITES] * 32e-6:.0f}  {busy}  ({r.seconds:.1f} s)"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m warpsim.accuracy``: simulate every recorded case and say how far the model is from the GPU."""
    parser = argparse.ArgumentParser(prog="python -m warpsim.accuracy", description=main.__doc__)
    parser.add_argument("--gpu", default="h200", help="whose recordings (default: h200)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--only", metavar="TEXT", help="only cases with TEXT in their name or kind")
    parser.add_argument("--untuned", action="store_true", help="only untuned cases")
    parser.add_argument("--cost", type=float, metavar="N", help="only cases of at most N warp instructions or so")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="keep rows in FILE; what this model wrote stays")
    parser.add_argument("--json", action="store_true", help="the table as JSON")
    parser.add_argument("--cases", action="store_true", help="a line for each case too")
    parser.add_argument("--intervals", action="store_true", help="write the errors to expect to gpus/GPU.errors.json")
    parser.add_argument("--ablate", action="store_true", help="instead: errors on a few cases, each mechanism off")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="parity plot (.png, .svg, .pdf)")
    given = parser.parse_args(arguments)
    try:
        if given.ablate:
            return _ablate(given)
        rows = _rows(given)
        if given.plot is not None:
            _plot(rows, given.plot, given.gpu)
        if given.intervals:
            path = Path(__file__).parent / "gpus" / f"{given.gpu}.errors.json"
            write_atomically(path, json.dumps(intervals(_errors(rows)), indent=1) + "\n")
    except WarpsimError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    sides = {"all": rows, "tuned": [r for r in rows if r.tuned], "untuned": [r for r in rows if not r.tuned]}
    tables = {title: table(side) for title, side in sides.items() if side}
    if given.json:
        print(json.dumps({"model": fingerprint(), "gpu": given.gpu, **tables}, indent=1).replace("NaN", "null"))
        return 0
    if given.cases:
        for row in rows:
            print(case_line(row))
    print(f"model {fingerprint()} against recordings of {given.gpu}, {len(rows)} cases")
    for title, content in tables.items():
        print("\n".join(lines(title, content, detail=title != "all")))
    return 0


def _again(row: Row, case: Case) -> Row:
    """A kept prediction beside what is recorded now."""
    assert case.measured is not None
    return dataclasses.replace(row, kind=case.kind, tuned=case.tuned, measured=case.measured.metrics)


def _ablate(given: argparse.Namespace) -> int:
    from warpsim.ablation import CASES, ablate, text

    if not given.json:
        print(f"model {fingerprint()}, mean absolute errors in percent over {', '.join(CASES)}")
        print(f"{'switched off':40s}{'time':>9s}{'DRAM':>9s}   largest change of a time")
    for line in ablate(given.gpu, jobs=given.jobs):
        print(json.dumps(line) if given.json else text(line), flush=True)
    return 0


def _rows(given: argparse.Namespace) -> list[Row]:
    """The rows asked for, simulated now but for those that the same model has written to the file to resume."""
    chosen = []
    for case in every_case(given.gpu):
        if given.only and given.only not in case.name and given.only not in case.kind:
            continue
        if given.untuned and case.tuned:
            continue
        if case.measured is None or case.note:
            print(f"left out: {case.name}: {case.note}", file=sys.stderr)
        elif given.cost is None or cost(case) <= given.cost:
            chosen.append(case)
    chosen.sort(key=cost)
    have: dict[str, Row] = {}
    if given.resume is not None and given.resume.exists():
        kept = (Row(**json.loads(line)) for line in given.resume.read_text(encoding="utf-8").splitlines() if line)
        have = {r.name: r for r in kept if r.model == fingerprint()}
        print(f"{len(have)} rows of this model kept from {given.resume}", file=sys.stderr)
    rows = [_again(have[c.name], c) for c in chosen if c.name in have]
    left = [c for c in chosen if c.name not in have]
    for row in run(left, jobs=given.jobs):
        rows.append(row)
        if given.resume is not None:
            with given.resume.open("a", encoding="utf-8") as file:
                file.write(json.dumps(dataclasses.asdict(row), separators=(",", ":")) + "\n")
        print(case_line(row), file=sys.stderr, flush=True)
    return rows


def _errors(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Relative time errors of the untuned launches by class."""
    errors: dict[str, list[float]] = {}
    for r in rows:
        if not r.tuned and not r.error:
            kind = limiter_class(r.busy, r.predicted[TIME])
            errors.setdefault(kind, []).append(r.measured[TIME] / r.predicted[TIME] - 1)
    return errors


def _plot(rows: Sequence[Row], path: Path, gpu: str) -> None:
    """Predicted against measured time and DRAM bytes."""
    from warpsim.comparison import Comparison
    from warpsim.comparison import Row as Pair
    from warpsim.parity import save_parity

    def pair(row: Row, name: str) -> Pair:
        return Pair(name, METRICS[name].unit, row.predicted[name], row.measured[name], None, "", "info")

    good = [r for r in rows if not r.error]
    save_parity([Comparison(r.name, gpu, {}, tuple(pair(r, n) for n in (TIME, READS, WRITES))) for r in good], path)


if __name__ == "__main__":
    sys.exit(main())
