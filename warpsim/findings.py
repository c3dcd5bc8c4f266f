"""What is wrong with a kernel's accesses, where, and what fixing it would buy.

Every rule measures a value on a Result's figures and reports it beyond a limit; `--fail-on RULE[:LIMIT]` uses another
limit. The gain of a finding is an estimate: with the excess work taken away from each component, time falls in
proportion to the busiest of them; a kernel that waits for latency gains nothing from less traffic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from warpsim.errors import InputError
from warpsim.metrics import global_requests, global_sectors, shared_conflicts, shared_wavefronts

__all__ = ["RULES", "Rule", "check", "judge", "parse"]

Dict = Mapping[str, Any]
Found = Iterator[dict[str, Any]]


@dataclass(frozen=True)
class Rule:
    """One rule: `value` beyond `limit` (above it, or below it where `below`) is reported."""

    name: str
    meaning: str
    limit: float
    severity: str  # warning: costs time or traffic; advice: worth a look; info: a fact
    measure: Callable[[Figures], Found]
    below: bool = False

    def exceeded(self, value: float, limit: float | None = None) -> bool:
        """Whether `value` is worse than the limit."""
        bar = self.limit if limit is None else limit
        return value < bar if self.below else value > bar


@dataclass(frozen=True)
class Figures:
    """What rules look at: parts of a Result."""

    metrics: Dict
    derived: Dict
    launch: Dict
    lines: Sequence[Dict]

    def places(self) -> Iterator[tuple[str, Dict, Dict, Dict]]:
        """(where, metrics, ideal, line) of each source line; the kernel as a whole where there are no lines."""
        if self.lines:
            for line in self.lines:
                yield f"{line['file']}:{line['line']}", line["metrics"], line.get("ideal", {}), line
            return
        ideal: dict[str, Any] = {}
        for op, word in (("ld", "load"), ("st", "store")):
            ideal[global_sectors(op)] = self.derived["global"][word]["ideal_sectors"]
            ideal[shared_wavefronts(op)] = self.derived["shared"][word]["ideal_wavefronts"]
        yield "kernel", self.metrics, ideal, {}

    def gain(self, saved: Mapping[str, float]) -> dict[str, Any] | None:
        """Estimate when component c keeps only 1 - saved[c] of its work; None where nothing is known."""
        busy = self.derived["limiter"]["busy"]
        time = self.metrics.get("gpu__time_duration.sum")
        top = max(busy.values(), default=0)
        if not top or not time:
            return None
        left = max(share * (1 - saved.get(name, 0.0)) for name, share in busy.items())
        rest = 1 - min(top, 1.0)  # waiting that no component accounts for stays
        after = time * (rest + (1 - rest) * left / top)
        return {"time_ns": time, "time_after_ns": after, "speedup": time / after, "how": "estimate by busy shares"}


_LEVELS = ("tag stage", "data stage", "request port", "return port", "L2 slices", "DRAM")


def _excess(figures: Figures, op: str) -> Iterator[tuple[str, Dict, float, float, float]]:
    """Places with global accesses of `op`: (where, line, requests, sectors, ideal)."""
    for where, metrics, ideal, line in figures.places():
        requests, sectors = metrics.get(global_requests(op), 0), metrics.get(global_sectors(op), 0)
        least = ideal.get(global_sectors(op))
        if requests and sectors and least:
            yield where, line, requests, sectors, least


def _misaligned_only(requests: float, sectors: float, least: float) -> bool:
    """About one sector more than ideal in every request: the base is off, the pattern is not."""
    return 0 < sectors - least <= 1.02 * requests


def _uncoalesced(figures: Figures) -> Found:
    for op, word in (("ld", "load"), ("st", "store")):
        total = figures.metrics.get(global_sectors(op), 0)
        for where, line, requests, sectors, least in _excess(figures, op):
            if _misaligned_only(requests, sectors, least):
                continue
            share = (sectors - least) / total
            yield {
                "value": sectors / least,
                "where": where,
                "access": word,
                "message": f"uncoalesced {word}: {sectors / requests:.3g} sectors a request, {least / requests:.3g} "
                f"would do ({sectors / least:.3g} times the sectors, {_bytes((sectors - least) * 32)} too many)",
                "advice": "let neighbouring lanes touch neighbouring addresses, or stage through shared memory",
                "gain": figures.gain(dict.fromkeys(_LEVELS, share * _part(figures, op))),
                **_line(line),
            }


def _misaligned(figures: Figures) -> Found:
    for op, word in (("ld", "load"), ("st", "store")):
        total = figures.metrics.get(global_sectors(op), 0)
        for where, line, requests, sectors, least in _excess(figures, op):
            if not _misaligned_only(requests, sectors, least):
                continue
            share = (sectors - least) / total
            yield {
                "value": (sectors - least) / requests,
                "where": where,
                "access": word,
                "message": f"misaligned {word}: {sectors / requests:.3g} sectors a request instead of "
                f"{least / requests:.3g}",
                "advice": "start each warp's range at a multiple of 32 B: pad rows, or shift the base",
                "gain": figures.gain(dict.fromkeys(_LEVELS[:-1], share * _part(figures, op))),
                **_line(line),
            }


def _bank_conflicts(figures: Figures) -> Found:
    all_wavefronts = figures.metrics.get("l1tex__data_pipe_lsu_wavefronts.sum", 0)
    for op, word in (("ld", "load"), ("st", "store")):
        for where, metrics, ideal, line in figures.places():
            wavefronts, conflicts = metrics.get(shared_wavefronts(op), 0), metrics.get(shared_conflicts(op), 0)
            least = ideal.get(shared_wavefronts(op)) or wavefronts - conflicts
            if not wavefronts or not least:
                continue
            saved = min(1.0, (wavefronts - least) / all_wavefronts) if all_wavefronts else 0.0
            yield {
                "value": wavefronts / least,
                "where": where,
                "access": f"shared {word}",
                "message": f"bank conflicts in a shared {word}: {wavefronts / least:.3g}-way, "
                f"{wavefronts:,.0f} wavefronts where {least:,.0f} would do",
                "advice": _layouts(line, op),
                "gain": figures.gain({"data stage": saved}),
                **_line(line),
            }


def _layouts(line: Dict, op: str) -> str:
    """Padding and swizzle that were tried on the worst request of the line."""
    from warpsim.remedies import remedies

    for access in line.get("accesses", ()):
        if access["op"] == {"ld": "LDS", "st": "STS"}[op] and "worst" in access:
            active = [bool(access["worst"]["active"] >> lane & 1) for lane in range(32)]
            kind = "load" if op == "ld" else "store"
            if found := remedies(access["worst"]["addresses"], active, access["width"], kind):
                also = f"; so does {found[1].text}" if len(found) > 1 else ""
                return f"{found[0].text} leaves no conflict on these addresses{also}"
    return "pad the row by one element, or XOR the column with the row (swizzle)"


def _partial_stores(figures: Figures) -> Found:
    stores = figures.derived["global"]["store"]
    sectors, requested = stores["sectors"], stores["requested_bytes"]
    if not sectors or requested is None or _part(figures, "st") < 0.05:
        return  # few stores beside the loads: not worth a word
    places = sorted(_excess(figures, "st"), key=lambda p: p[4] - p[3])
    where, line = (places[0][0], places[0][1]) if places else ("kernel", {})
    yield {
        "value": max(0.0, 1 - requested / (32 * sectors)),
        "where": where,
        "access": "store",
        "message": f"partly written sectors: stores carry {requested / sectors:.3g} of each sector's 32 B; "
        "L2 must read such a sector from DRAM unless other stores complete it in time",
        "advice": "write whole 32 B sectors from one warp",
        "gain": None,
        **_line(line),
    }


def _same_sector(figures: Figures) -> Found:
    l2 = figures.derived["l2"]
    # Nsight counts reductions and atomics at L2 apart from writes.
    atomics = 32 * sum(figures.metrics.get(global_sectors(op), 0) for op in ("red", "atom"))
    spilled = 32 * figures.metrics.get("l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum", 0)
    moved = (l2["write_bytes"] or 0) + atomics - spilled
    if moved <= 0 or not l2.get("distinct_write_bytes"):
        return
    value = moved / l2["distinct_write_bytes"]
    written = [
        (metrics.get(global_sectors(op), 0), where, word, line)
        for where, metrics, _, line in figures.places()
        for op, word in (("st", "store"), ("red", "reduction"), ("atom", "atomic"))
    ]
    _, where, word, line = max(written, key=lambda place: place[0])
    yield {
        "value": value,
        "where": where,
        "access": word,
        "message": f"same-sector writes: each written sector goes to L2 {value:.3g} times, {_bytes(moved)} "
        f"for {_bytes(l2['distinct_write_bytes'])}; several warps or CTAs write words of one line",
        "advice": "let one warp write whole sectors, and give each CTA lines of its own",
        "gain": None,
        **_line(line),
    }


def _l2_thrash(figures: Figures) -> Found:
    l2, dram, useful = (figures.derived[key] for key in ("l2", "dram", "useful"))
    capacity, need = l2.get("capacity_bytes"), useful["read_bytes"]
    if not capacity or not need or not dram["read_bytes"] or not capacity / 4 < useful["bytes"] < 4 * capacity:
        return
    if l2["read_bytes"] < 1.5 * need or dram["read_bytes"] > 1.05 * l2["read_bytes"]:  # once, or not asked for
        return
    yield {
        "value": dram["read_bytes"] / need,
        "where": "kernel",
        "message": f"L2 thrash: {_bytes(useful['bytes'])} are touched and L2 has {_bytes(capacity)}; each byte "
        f"that is read comes from DRAM {dram['read_bytes'] / need:.3g} times",
        "advice": "work on pieces that stay in L2, half of its size where both sides keep copies",
        "gain": None,
    }


def _dram_granularity(figures: Figures) -> Found:
    read = figures.metrics.get("dram__sectors_read.sum", 0)
    asked = figures.metrics.get("lts__t_sectors_srcunit_tex_op_read.sum", 0)
    stores = figures.derived["global"]["store"]
    if (stores["requested_bytes"] or 0) < 32 * (stores["sectors"] or 0):  # partly written sectors are read, too
        read -= figures.metrics.get("lts__t_sectors_srcunit_tex_op_write.sum", 0)
    if read <= 0 or not asked:
        return
    saved = max(0.0, 1 - asked / read) * _read_share(figures)
    yield {
        "value": read / asked,
        "where": "kernel",
        "message": f"DRAM granularity: {_bytes(read * 32)} read from DRAM where {_bytes(asked * 32)} were asked of L2; "
        "DRAM gives 64 B at a time and only part of it was wanted",
        "advice": "make each access use 64 B that lie together",
        "gain": figures.gain({"DRAM": saved}),
    }


def _low_in_flight(figures: Figures) -> Found:
    law = figures.derived["littles_law"]
    share = law["share"]
    occupancy = figures.derived["occupancy"]
    if (occupancy["waves"] or 1) * (occupancy["ctas_per_sm"] or 1) < 1:
        return  # a grid smaller than the GPU is a finding of its own
    if share is None or figures.derived["limiter"]["name"] not in ("latency", "DRAM", None):
        return
    if (figures.derived["bandwidth"]["dram_share_of_peak"] or 0) > 0.8:
        return
    yield {
        "value": share,
        "where": "kernel",
        "message": f"too few bytes in flight: {_bytes(law['in_flight_bytes_per_sm'])} an SM on average, "
        f"Little's law asks for {_bytes(law['needed_bytes_per_sm'])} ({law['latency_ns']:.0f} ns x peak bandwidth)",
        "advice": "more independent loads before the first use, wider loads (float4), or more resident warps",
        "gain": None,
    }


def _tail_wave(figures: Figures) -> Found:
    waves = figures.derived["occupancy"]["waves"]
    if not waves or waves <= 1:
        return
    yield {
        "value": 1 - waves / math.ceil(waves),
        "where": "kernel",
        "message": f"tail wave: {waves:.2f} waves of CTAs run as {math.ceil(waves)}; "
        f"{100 * (1 - waves / math.ceil(waves)):.0f} % of the slots are empty if CTAs take equal time",
        "advice": "choose a grid near a multiple of SMs x resident CTAs, or let CTAs loop over the work",
        "gain": None,
    }


def _small_grid(figures: Figures) -> Found:
    occupancy = figures.derived["occupancy"]
    waves, resident = occupancy["waves"], occupancy["ctas_per_sm"]
    if not waves or not resident:
        return
    yield {
        "value": min(1.0, waves * resident),
        "where": "kernel",
        "message": f"small grid: CTAs for only {100 * min(1.0, waves * resident):.0f} % of the SMs",
        "advice": "split the work into more CTAs",
        "gain": None,
    }


def _dispatch(figures: Figures) -> Found:
    busy = figures.derived["limiter"]["busy"].get("dispatch")
    if busy is None:
        return
    yield {
        "value": busy,
        "where": "kernel",
        "message": f"CTA dispatch is busy {100 * busy:.0f} % of the time: CTAs are too short",
        "advice": "more work a CTA: larger blocks, or several elements a thread",
        "gain": figures.gain({"dispatch": 0.75}),
    }


def _local_memory(figures: Figures) -> Found:
    sectors = sum(figures.metrics.get(f"l1tex__t_sectors_pipe_lsu_mem_local_op_{op}.sum", 0) for op in ("ld", "st"))
    if not sectors:
        return
    yield {
        "value": sectors * 32.0,
        "where": "kernel",
        "message": f"local memory: {_bytes(sectors * 32)} moved for register spills or indexed local arrays",
        "advice": "fewer live values, constant indices, or a higher register limit (__launch_bounds__)",
        "gain": None,
    }


def _low_bandwidth(figures: Figures) -> Found:
    bandwidth = figures.derived["bandwidth"]
    share = bandwidth["effective_share_of_peak"]
    if not share or figures.derived["roofline"]["bound"] == "compute":  # 0: it moves nothing
        return
    yield {
        "value": share,
        "where": "kernel",
        "message": f"effective bandwidth {bandwidth['effective'] / 1e9:,.0f} GB/s is {100 * share:.0f} % of the peak "
        f"{bandwidth['peak'] / 1e9:,.0f} GB/s",
        "advice": "below 50 %: look at coalescing, bytes in flight and the grid's size, in this order",
        "gain": None,
    }


def _bound(figures: Figures, kind: str) -> Found:
    roofline = figures.derived["roofline"]
    ridge = roofline["ridge"].get(roofline["precision"])
    if roofline["bound"] != kind or ridge is None:
        return
    intensity = figures.derived["intensity"]
    at = intensity["dram"] if intensity["dram"] is not None else intensity["useful"]
    text = "no FLOP at all" if not at else f"{at:.3g} FLOP a byte"
    side = "below" if kind == "memory" else "above"
    yield {
        "value": 1.0,
        "where": "kernel",
        "message": f"{kind}-bound by the roofline: {text}, {side} the ridge of {ridge:.3g} ({roofline['precision']})",
        "advice": "",
        "gain": None,
    }


def _line(line: Dict) -> dict[str, Any]:
    return {"file": line["file"], "line": line["line"]} if line else {}


def _part(figures: Figures, op: str) -> float:
    """Share of `op` in all global sectors."""
    total = sum(figures.metrics.get(global_sectors(o), 0) for o in ("ld", "st", "atom", "red"))
    return figures.metrics.get(global_sectors(op), 0) / total if total else 0.0


def _read_share(figures: Figures) -> float:
    read, both = figures.derived["dram"]["read_bytes"], figures.derived["dram"]["bytes"]
    return read / both if read and both else 0.0


def _bytes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


_TABLE = (
    Rule("uncoalesced", "sectors of a load or store, as a multiple of its ideal", 1.25, "warning", _uncoalesced),
    Rule("misaligned", "sectors a request beyond the ideal because the base is off", 0.5, "warning", _misaligned),
    Rule("bank-conflicts", "ways: shared wavefronts as a multiple of the ideal", 1.1, "warning", _bank_conflicts),
    Rule("partial-stores", "share of the stored sectors' bytes that is not written", 0.1, "warning", _partial_stores),
    Rule(
        "l2-thrash",
        "times that a byte comes from DRAM, where data is about as large as L2",
        1.25,
        "warning",
        _l2_thrash,
    ),
    Rule("dram-granularity", "DRAM sectors read for each that SMs read from L2", 1.3, "warning", _dram_granularity),
    Rule("same-sector-writes", "times that a written sector goes to L2", 1.5, "advice", _same_sector),
    Rule("local-memory", "bytes moved for spills and local arrays", 0.0, "warning", _local_memory),
    Rule("dispatch-bound", "share of the time in which CTA dispatch is busy", 0.8, "warning", _dispatch),
    Rule("low-in-flight", "bytes in flight, of what Little's law asks", 0.8, "warning", _low_in_flight, below=True),
    Rule("tail-wave", "share of CTA slots empty because the last wave is not full", 0.15, "advice", _tail_wave),
    Rule("small-grid", "share of the SMs that get a CTA", 1.0, "advice", _small_grid, below=True),
    Rule("low-bandwidth", "effective bandwidth, as a share of the peak", 0.5, "advice", _low_bandwidth, below=True),
    Rule("memory-bound", "1 when the roofline's slope limits", 0.5, "info", partial(_bound, kind="memory")),
    Rule("compute-bound", "1 when the roofline's flat part limits", 0.5, "info", partial(_bound, kind="compute")),
)

RULES: dict[str, Rule] = {rule.name: rule for rule in _TABLE}


def judge(metrics: Dict, derived: Dict, launch: Dict, lines: Sequence[Dict]) -> list[dict[str, Any]]:
    """Findings of a run, the largest estimated gain first, then warnings, advice and facts."""
    figures = Figures(metrics, derived, launch, lines)
    found = [
        {"rule": rule.name, "severity": rule.severity, **one}
        for rule in RULES.values()
        for one in rule.measure(figures)
        if rule.exceeded(one["value"])
    ]
    rank = {"warning": 0, "advice": 1, "info": 2}
    return sorted(found, key=lambda one: (rank[one["severity"]], -(one["gain"] or {}).get("speedup", 1.0)))


def parse(text: str) -> tuple[Rule, float | None]:
    """Parse ``RULE`` or ``RULE:LIMIT``."""
    name, colon, number = text.partition(":")
    if name not in RULES:
        raise InputError(f"--fail-on {text}: unknown rule {name!r}; allowed: {', '.join(RULES)}")
    if not colon:
        return RULES[name], None
    try:
        limit = float(number)
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit):
        raise InputError(f"--fail-on {text}: the limit {number!r} is not a number")
    return RULES[name], limit


def check(metrics: Dict, derived: Dict, launch: Dict, lines: Sequence[Dict], wanted: str) -> list[str]:
    """What violates ``RULE[:LIMIT]``, one line each; empty where all is well."""
    which, limit = parse(wanted)
    figures = Figures(metrics, derived, launch, lines)
    word = "below" if which.below else "above"
    bar = which.limit if limit is None else limit
    return [
        f"{which.name}: {one['where']}: {one['message']} ({one['value']:.4g}, {word} the limit {bar:g})"
        for one in which.measure(figures)
        if which.exceeded(one["value"], limit)
    ]
