"""How many global loads a warp has under way before it must wait for the first of them.

Warps issue in order and stop at the first use of a value that has not come: the wait mask of that instruction names
the scoreboard of the load. Little's law multiplies by this number.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsim.frontend.program import Program

__all__ = ["independent_loads"]

_SHARE = 0.05  # of all load requests that a group must make, so that remainder loops and prologues do not decide


def independent_loads(program: Program, requests: Sequence[int]) -> int:
    """The most global loads between two waits, of those that matter; `requests` counts each instruction's.

    Code is read in its order, so a loop counts once, and a wait on a scoreboard ends all loads on it.
    """
    least = _SHARE * sum(requests[i.index] for i in program.instructions if i.opcode == "LDG")
    under_way: list[int] = []  # scoreboards of loads not waited for
    most = 1
    for i in program.instructions:
        under_way = [barrier for barrier in under_way if not i.wait_mask >> barrier & 1]
        if i.opcode in ("EXIT", "BAR", "RET"):
            under_way.clear()
        elif i.opcode == "LDG" and requests[i.index] > 0 and i.write_barrier != 7:
            under_way.append(i.write_barrier)
            if requests[i.index] * len(under_way) >= least:
                most = max(most, len(under_way))
    return most
