"""Where a warp's special registers lie: 32 words each for those that differ by lane, one for those of a warp."""

from __future__ import annotations

__all__ = ["SPECIAL", "SPECIAL_WORDS"]

_LANE = ("SR_TID.X", "SR_TID.Y", "SR_TID.Z")
_WARP = (
    "SR_CTAID.X", "SR_CTAID.Y", "SR_CTAID.Z", "SR_NTID.X", "SR_NTID.Y", "SR_NTID.Z", "SR_NCTAID.X", "SR_NCTAID.Y",
    "SR_NCTAID.Z", "SR_WARPID", "SR_VIRTID", "SR_NWARPID", "SR_SMEMSZ", "SR_SWINHI", "SR_SWINLO", "SR_LWINLO",
    "SR_LWINHI", "SR_CgaCtaId", "SR_CgaSize", "SR_GRIDID", "SR_NSMID", "SR_VIRTUALSMCNT", "SR_CTA_SIZE",
)  # fmt: skip
_UNKNOWN = (
    "SR_CLOCKLO", "SR_CLOCKHI", "SR_GLOBALTIMERLO", "SR_GLOBALTIMERHI", "SR_VIRTUALSMID", "SR_SMID", "SR_SM_ID",
)  # fmt: skip

SPECIAL: dict[str, tuple[str, int]] = {
    **{name: ("lane", 32 * k) for k, name in enumerate(_LANE)},
    **{name: ("warp", 32 * len(_LANE) + k) for k, name in enumerate(_WARP)},
    **dict.fromkeys(_UNKNOWN, ("unknown", -1)),
}
SPECIAL_WORDS = 32 * len(_LANE) + len(_WARP)
