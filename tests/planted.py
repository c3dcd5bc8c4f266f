"""Faults to plant in the model, each of which a campaign must find and shrink: name -> function(monkeypatch)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from warpsim import coalescing

Plant = Callable[[pytest.MonkeyPatch], None]
PATTERN_FAULTS: dict[str, Plant] = {}
KERNEL_FAULTS: dict[str, Plant] = {}


def pattern_fault(plant: Plant) -> Plant:
    PATTERN_FAULTS[plant.__name__] = plant
    return plant


def kernel_fault(plant: Plant) -> Plant:
    KERNEL_FAULTS[plant.__name__] = plant
    return plant


def wrap(patch: pytest.MonkeyPatch, name: str, change: Callable[..., Any]) -> None:
    """Replace a rule by change(original, *arguments)."""
    original = getattr(coalescing, name)
    patch.setattr(coalescing, name, lambda *arguments: change(original, *arguments))


@pattern_fault
def wrong_bank_rule(patch: pytest.MonkeyPatch) -> None:
    """Shared banks are taken to be 8 bytes wide."""
    wrap(patch, "shared_request", lambda rule, a, *rest: rule([x // 8 * 4 for x in a], *rest))


@pattern_fault
def off_by_one_in_the_tag_hash(patch: pytest.MonkeyPatch) -> None:
    wrap(patch, "tag_bank", lambda rule, line, low, high: rule(line, low << 1, high))


@pattern_fault
def lost_sector(patch: pytest.MonkeyPatch) -> None:
    """The last sector of a request that touches several lines is lost."""

    def lose(rule: Any, *arguments: Any) -> int:
        count: int = rule(*arguments)
        out = arguments[6]
        out[0] -= count > 1
        return count

    wrap(patch, "global_request", lose)


@pattern_fault
def stores_merge_groups(patch: pytest.MonkeyPatch) -> None:
    def merge(rule: Any, a: Any, active: int, width: int, op: int, *rest: Any) -> Any:
        return rule(a, active, width, coalescing.LOAD if op == coalescing.STORE else op, *rest)

    wrap(patch, "shared_request", merge)


@pattern_fault
def atomics_do_not_take_turns(patch: pytest.MonkeyPatch) -> None:
    def at_once(_: Any, a: Any, active: int, width: int, *rest: Any) -> Any:
        return coalescing.global_request(a, active, width, coalescing.LOAD, *rest[:4])

    wrap(patch, "atomic_request", at_once)


@pattern_fault
def one_bank_is_free(patch: pytest.MonkeyPatch) -> None:
    """Bank 31 never conflicts."""

    def free(rule: Any, masks: Any, first: int, count: int) -> Any:
        return rule([int(m) & 0x7FFFFFFF for m in masks[: first + count]], first, count)

    wrap(patch, "_most_in_a_bank", free)


@pattern_fault
def shared_atomics_broadcast(patch: pytest.MonkeyPatch) -> None:
    """Lanes on one word of shared memory are taken together, as for a load."""

    def broadcast(rule: Any, a: Any, active: int, width: int, op: int, *rest: Any) -> Any:
        return rule(a, active, width, coalescing.STORE if op == coalescing.SHARED_ATOMIC else op, *rest)

    wrap(patch, "shared_request", broadcast)


@pattern_fault
def last_lane_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Of loads and stores: an atomic would look for its line for ever."""
    original = coalescing.global_request

    def atomic(rule: Any, *arguments: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(coalescing, "global_request", original)
            return rule(*arguments)

    wrap(patch, "atomic_request", atomic)
    wrap(patch, "global_request", lambda rule, a, active, *rest: rule(a, active & 0x7FFFFFFF, *rest))


@pattern_fault
def lines_in_order_of_address(patch: pytest.MonkeyPatch) -> None:
    """Lines go to tag wavefronts in the order of their addresses, not in that of first touch."""

    def sort(rule: Any, a: Any, active: int, width: int, op: int, *rest: Any) -> Any:
        lanes = [t for t in range(32) if active >> t & 1]
        ordered = sorted(a[t] for t in lanes)
        row = [0] * 32
        for t, address in zip(lanes, ordered, strict=True):
            row[t] = address
        return rule(row, active, width, op, *rest)

    wrap(patch, "global_request", sort)


@kernel_fault
def miscounted_barrier(patch: pytest.MonkeyPatch) -> None:
    """A barrier is counted once less than warps execute it."""
    from warpsim.frontend import counts

    original = counts._per_instruction

    def less(executor: Any) -> Any:
        executed, lanes = original(executor)
        for i in executor.program.instructions:
            executed[i.index] -= i.opcode == "BAR" and executed[i.index] > 0
        return executed, lanes

    patch.setattr(counts, "_per_instruction", less)


@kernel_fault
def stores_counted_as_loads(patch: pytest.MonkeyPatch) -> None:
    from warpsim.frontend import counts

    patch.setitem(counts._GLOBAL, "STG", "ld")


@kernel_fault
def reductions_lose_a_sector(patch: pytest.MonkeyPatch) -> None:
    from warpsim.frontend import counts, memory

    original = counts.count

    def lose(executor: Any) -> Any:
        for i in executor.program.instructions:
            if i.opcode in ("RED", "REDG"):
                executor.stats[i.index, memory.S_SECTORS] -= 1
        return original(executor)

    patch.setattr(counts, "count", lose)


@kernel_fault
def wrong_lookup_table_of_lop3(patch: pytest.MonkeyPatch) -> None:
    """XOR is computed as OR."""
    from warpsim.frontend import integer

    original = integer.lookup
    patch.setattr(integer, "lookup", lambda e, lut, x, y, z: original(e, 0xFC if lut == 0x3C else lut, x, y, z))


@kernel_fault
def blocks_count_along_y(patch: pytest.MonkeyPatch) -> None:
    """blockIdx.x and blockIdx.y are exchanged."""
    from warpsim.frontend import lanes

    original = lanes.special
    other = {"SR_CTAID.X": "SR_CTAID.Y", "SR_CTAID.Y": "SR_CTAID.X"}
    patch.setattr(lanes, "special", lambda e, name: original(e, other.get(name, name)))


def _inherit(patch: pytest.MonkeyPatch, name: str) -> None:
    """A clock of L2's slices goes on from launch to launch."""
    from warpsim.machine.build import Machine

    run, state = Machine.run, Machine._state

    def keep(machine: Any, *arguments: Any, **named: Any) -> Any:
        machine.left = machine._l2["slices"][name].copy()
        return run(machine, *arguments, **named)

    def restore(machine: Any, *arguments: Any) -> Any:
        machine._l2["slices"][name] = machine.left
        return state(machine, *arguments)

    patch.setattr(Machine, "run", keep)
    patch.setattr(Machine, "_state", restore)


@kernel_fault
def launches_inherit_a_clock(patch: pytest.MonkeyPatch) -> None:
    """The slices of L2 are busy until the time at which the last launch left them."""
    _inherit(patch, "free")


@kernel_fault
def launches_inherit_writes(patch: pytest.MonkeyPatch) -> None:
    """The slices of L2 are writing until the time at which the last launch's data were written: it was so once."""
    _inherit(patch, "filled")


@kernel_fault
def requests_arrive_at_once(patch: pytest.MonkeyPatch) -> None:
    """The crossbar takes no time, nor does DRAM."""
    from warpsim.machine.build import Machine

    original = Machine._parameters

    def hurry(machine: Any, *arguments: Any) -> Any:
        table = original(machine, *arguments)
        table["request_latency"] = table["dram_latency_ticks"] = table["far_ticks"] = 0
        return table

    patch.setattr(Machine, "_parameters", hurry)


@kernel_fault
def timed_run_loses_an_instruction(patch: pytest.MonkeyPatch) -> None:
    """What the machine ran is counted without the last warp's EXIT."""
    from warpsim import simulator

    original = simulator.count

    def lose(executor: Any) -> Any:
        found = original(executor)
        found.metrics["smsp__inst_executed.sum"] -= 1
        return found

    patch.setattr(simulator, "count", lose)
