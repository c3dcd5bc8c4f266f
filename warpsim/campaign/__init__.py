"""Campaigns: Hypothesis draws patterns and kernels, laws and hardware judge them, what fails is shrunk and kept.

    report = run("corpus", patterns=20_000, kernels=1_000)      # offline, all local cores
    report = run("corpus", scheduler="tcp://host:8786")         # on an existing Dask cluster
    report = hardware.run_on_gpu("corpus")                       # against the GPU that is here
    report = replay("corpus")                                   # every kept failure once more

A campaign that was killed goes on where it was: chunks in the corpus's journal are not done again.
"""

from __future__ import annotations

from warpsim.errors import UnsupportedError

try:
    import hypothesis  # noqa: F401
except ImportError:
    raise UnsupportedError("campaigns need Hypothesis: pip install 'warpsim[campaign]'") from None

from warpsim.campaign.report import Progress, Report
from warpsim.campaign.runs import replay, run

__all__ = ["Progress", "Report", "replay", "run"]
