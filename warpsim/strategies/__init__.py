"""Hypothesis strategies: access patterns of one warp, small CUDA kernels, launches.

    patterns()     `warpsim.patterntable.Pattern`: shape of the addresses x base x active lanes x op, space and width
    kernels()      `warpsim.grammar.SmallKernel`: CUDA source, its launch, and the same thing for NumPy
    launches()     (grid, block)
    expressions()  index expressions over thread and block indices

Everything is put together from small parts, so it shrinks: towards `a[threadIdx.x]` of 4 bytes, read by few lanes.
Needs the extra `campaign`.
"""

from __future__ import annotations

from warpsim.errors import UnsupportedError

try:
    import hypothesis  # noqa: F401
except ImportError:
    raise UnsupportedError("warpsim.strategies needs Hypothesis: pip install 'warpsim[campaign]'") from None

from warpsim.strategies.kernels import expressions, kernels, launches
from warpsim.strategies.patterns import indices, masks, page_tables, patterns

__all__ = ["expressions", "indices", "kernels", "launches", "masks", "page_tables", "patterns"]
