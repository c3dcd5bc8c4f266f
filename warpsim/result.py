"""What a run produced, simulated or measured: one frozen record, the same JSON for both.

`build_result` takes raw counters as plain dicts and works out everything else (`derived`, `findings`) in one place.
Units: nanoseconds, bytes, bytes per second, cycles; rates and shares in `derived` are fractions of 1; only metrics
whose Nsight Compute name says `pct` are percentages.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsim.derivation import derive
from warpsim.errors import InputError, UnsupportedError
from warpsim.findings import judge
from warpsim.metrics import METRICS, REQUIRED

if TYPE_CHECKING:
    from warpsim.svg import Drawing

__all__ = ["SCHEMA", "Result", "build_result", "flatten", "plain", "write_atomically", "zeros"]

SCHEMA = 1


@dataclass(frozen=True)
class Result:
    """Counters of one launch and what follows from them; the fields are the JSON keys."""

    scenario: str
    kernel: str
    source: str  # "simulated" or "measured"
    gpu: str
    launch: dict[str, Any]
    params: dict[str, Any]
    state: dict[str, Any]
    buffers: list[dict[str, Any]]
    compiler: str
    clock_mhz: float
    coverage: dict[str, int]
    metrics: dict[str, int | float]
    derived: dict[str, Any]
    uncertainty: dict[str, Any]
    lines: list[dict[str, Any]]
    findings: list[dict[str, Any]]
    schema: int = SCHEMA
    warpsim: str = ""
    recording: dict[str, Any] = field(default_factory=dict)  # driver, date, source hash; only of recorded results

    @property
    def time_ns(self) -> float:
        """Duration of the kernel in nanoseconds."""
        return float(self.metrics["gpu__time_duration.sum"])

    @property
    def missing(self) -> list[str]:
        """Required metrics that this result lacks; only a measured one may lack any."""
        return [name for name in REQUIRED if name not in self.metrics]

    def to_dict(self) -> dict[str, Any]:
        """The JSON object, keys in the documented order."""
        order = [
            "schema", "warpsim", "scenario", "kernel", "source", "gpu", "launch", "params", "state", "buffers",
            "compiler", "clock_mhz", "coverage", "metrics", "derived", "uncertainty", "lines", "findings",
        ]  # fmt: skip
        document = {name: plain(getattr(self, name)) for name in order}
        if self.recording:
            document["recording"] = plain(self.recording)
        return document

    def to_json(self, indent: int | None = 1) -> str:
        """JSON text; numbers that do not exist (a ratio over zero) are null."""
        text = json.dumps(self.to_dict(), indent=indent, allow_nan=False)
        return re.sub(r"\[\n[\s\d.,eE+-]*\]", lambda found: " ".join(found[0].split()), text)  # numbers on one line

    @classmethod
    def from_json(cls, document: str | bytes | Mapping[str, Any], origin: str = "result") -> Result:
        """A Result from its JSON text or object; `origin` names it in errors."""
        if isinstance(document, str | bytes):
            try:
                document = json.loads(document)
            except ValueError as error:
                raise InputError(f"{origin}: not JSON: {error}") from None
        if not isinstance(document, Mapping):
            raise InputError(f"{origin}: a result is a JSON object, this is a {type(document).__name__}")
        if document.get("schema") != SCHEMA:
            raise InputError(f"{origin}: schema {document.get('schema')!r} given, this version reads schema {SCHEMA}")
        known = {f.name: f for f in dataclasses.fields(cls)}
        required = [n for n, f in known.items() if f.default is dataclasses.MISSING and n != "recording"]
        lacking = [n for n in required if n not in document]
        if lacking:
            raise InputError(f"{origin}: key {lacking[0]!r} is missing; a result has {', '.join(required)}")
        unknown = sorted(set(document) - set(known))
        if unknown:
            raise InputError(f"{origin}: unknown key {unknown[0]!r}; allowed: {', '.join(known)}")
        return cls(**document)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """Read a Result that `save` wrote."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{os.fspath(path)}: cannot read: {getattr(error, 'strerror', None) or error}") from None
        return cls.from_json(text, os.fspath(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON atomically: readers see the old file or the whole new one."""
        write_atomically(path, self.to_json() + "\n")

    def to_dataframe(self, what: str = "metrics") -> Any:
        """A pandas DataFrame: ``metrics`` (a row each), ``lines`` (a row a source line) or ``row`` (everything)."""
        try:
            import pandas  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            raise UnsupportedError("to_dataframe needs pandas, which is not installed: pip install pandas") from None
        if what == "metrics":
            rows = [
                {"metric": name, "value": value, "unit": METRICS[name].unit if name in METRICS else ""}
                for name, value in self.metrics.items()
            ]
            return pandas.DataFrame(rows).set_index("metric")
        if what == "lines":
            return pandas.DataFrame(
                [{"file": x["file"], "line": x["line"], "text": x.get("text", ""), **x["metrics"]} for x in self.lines]
            )
        if what == "row":
            return pandas.DataFrame([self.flat()])
        raise InputError(f"to_dataframe: what={what!r} given, allowed: metrics, lines, row")

    def flat(self) -> dict[str, Any]:
        """Name, GPU, parameters, metrics and derived numbers as one flat dict (derived keys are dotted)."""
        row: dict[str, Any] = {"scenario": self.scenario, "gpu": self.gpu, "source": self.source}
        row |= {f"params.{k}": v for k, v in self.params.items()}
        row |= self.metrics
        return row | flatten(plain(self.derived), "derived.")

    def plot_memory_chart(self) -> Drawing:
        """Bytes between SMs, L1, L2 and DRAM; shows itself in a notebook, `.save(path)` writes it."""
        from warpsim import plots

        return plots.memory_chart(self)

    def plot_roofline(self, *others: Result) -> Drawing:
        """FLOP/s over FLOP a byte under the GPU's roofs, with other results beside it."""
        from warpsim import plots

        return plots.roofline(self, *others)

    def plot_timeline(self) -> Drawing:
        """Bytes in flight, bandwidths and resident warps over time."""
        from warpsim import plots

        return plots.timeline(self)

    def plot_in_flight(self, *others: Result) -> Drawing:
        """DRAM bandwidth over bytes in flight under Little's law, with other results beside it."""
        from warpsim import plots

        return plots.in_flight(self, *others)

    def plot_parity(self, measured: Result, *pairs: tuple[Result, Result]) -> Drawing:
        """Predicted against measured time, with other (predicted, measured) pairs beside it."""
        from warpsim import plots

        return plots.parity((self, measured), *pairs)

    def __repr__(self) -> str:
        return f"<Result {self.scenario} on {self.gpu}, {self.source}: {self.time_ns / 1e3:,.4g} us>"

    def _repr_html_(self) -> str:
        from warpsim.text import html

        return html(self)

    def __str__(self) -> str:
        from warpsim.text import summary

        return summary(self)


def build_result(
    *,
    scenario: str,
    kernel: str,
    source: str,
    gpu: Mapping[str, Any],
    launch: Mapping[str, Any],
    metrics: Mapping[str, int | float],
    extra: Mapping[str, Any],
    params: Mapping[str, Any] | None = None,
    state: Mapping[str, Any] | None = None,
    buffers: Sequence[Mapping[str, Any]] = (),
    compiler: str = "",
    clock_mhz: float | None = None,
    coverage: Mapping[str, int] | None = None,
    uncertainty: Mapping[str, Any] | None = None,
    lines: Sequence[Mapping[str, Any]] = (),
    recording: Mapping[str, Any] | None = None,
) -> Result:
    """A Result from raw counters.

    `gpu`: what `warpsim.derivation.gpu_facts` makes of a profile: ``name``, ``title``, ``checked``, ``assumed``
    (names of figures without a source), ``sms``, ``max_warps`` an SM, ``l2_bytes``, ``clock_mhz``, ``dram_bandwidth``
    (peak, bytes/s), ``dram_latency_ns`` (unloaded),
    ``flops`` {"fp32": FLOP/s, "fp64", "fp16", "fp16_tensor", "tf32_tensor"}.

    `launch`: ``grid``, ``block``, ``registers``, ``shared`` (bytes a CTA, static + dynamic), ``ctas_per_sm``; optional
    ``limit`` (what bounds ctas_per_sm), ``local``.

    `metrics`: Nsight name -> number. A simulated result must have all of `metrics.REQUIRED` (start from `zeros()`).

    `extra`, all optional; what is absent gives null in `derived`:

    - ``ideal`` {metric name: the least possible for the same active bytes}: global sectors, shared wavefronts
    - ``requested_bytes`` {"ld", "st", "atom", "red"}: bytes of all active lanes of global accesses
    - ``useful_bytes`` {"read", "write"}: distinct bytes of the buffers that the kernel touches; "write_sectors": in how
      many sectors the written ones lie
    - ``shared_requests`` {"ld", "st"}: shared-memory instructions (LDS with LDSM, STS)
    - ``in_flight_bytes``: mean bytes of global loads under way, whole GPU; ``loads_per_warp``: independent loads
      before the first use; ``latency_cycles``: mean latency of a global load as it was in this run
    - ``busy`` {component: fraction of the time}, as `MachineResult.busy`: issue, tag stage, data stage, request port,
      return port, L2 slices, DRAM data, DRAM turnaround, DRAM activation, dispatch
    - ``other_ops`` {opcode: thread instructions}: floating-point instructions that are no FLOPs
    - ``notes`` and ``unknowns`` [str]: what had to be assumed; ``timeline``: `MachineResult.series`

    `lines`: one dict a source line: ``file``, ``line``, ``text``, ``metrics`` {name: number}, ``ideal`` {name: number},
    optionally ``accesses`` [{"op", "space", "width", "opcode", "index"}].
    """
    if source not in ("simulated", "measured"):
        raise ValueError(f"source {source!r}: simulated or measured")
    strange = [name for name in metrics if name not in METRICS]
    if strange:
        raise ValueError(f"metrics without an entry in warpsim.metrics: {strange}")
    lacking = [name for name in REQUIRED if name not in metrics]
    if source == "simulated" and lacking:
        raise ValueError(f"required metrics missing: {lacking}")
    ordered = {name: plain(metrics[name]) for name in METRICS if name in metrics}
    clock = float(clock_mhz if clock_mhz is not None else gpu["clock_mhz"])
    table = [plain(dict(x)) for x in lines]
    shape = plain(dict(launch))
    derived = derive(ordered, plain(dict(extra)), shape, plain(dict(gpu)), clock)
    return Result(
        scenario=scenario,
        kernel=kernel,
        source=source,
        gpu=str(gpu["name"]),
        launch=shape,
        params=plain(dict(params or {})),
        state=plain(dict(state or {})),
        buffers=[plain(dict(b)) for b in buffers],
        compiler=compiler,
        clock_mhz=clock,
        coverage=plain(dict(coverage or {"ctas": _ctas(shape), "of": _ctas(shape)})),
        metrics=ordered,
        derived=derived,
        uncertainty=plain(dict(uncertainty or {})),
        lines=table,
        findings=judge(ordered, derived, shape, table),
        warpsim=_version(),
        recording=plain(dict(recording or {})),
    )


def zeros() -> dict[str, int | float]:
    """All required metrics at zero, to be counted up."""
    return dict.fromkeys(REQUIRED, 0)


def plain(value: Any) -> Any:
    """NumPy scalars and arrays, tuples and nested containers as JSON types; NaN and infinities become None."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dicts as one dict with dotted keys; lists are left out."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        elif not isinstance(value, list):
            flat[prefix + key] = value
    return flat


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` beside `path` and move it there; permissions are those of a newly made file."""
    target = Path(path).resolve()
    if target.exists() and not target.is_file():  # a pipe or a device
        try:
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path}: cannot write: {error.strerror}") from None
        return
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise InputError(f"{path}: cannot write: {error.strerror}") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, target)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise InputError(f"{path}: cannot write: {error.strerror}") from None


def _ctas(launch: Mapping[str, Any]) -> int:
    product = 1
    for extent in launch["grid"]:
        product *= int(extent)
    return product


def _version() -> str:
    from warpsim import __version__

    return __version__
