"""What one warp instruction asks of L1TEX and shared memory: sectors, tags, wavefronts and bank conflicts.

The rules are here once. `global_request`, `atomic_request` and `shared_request` are plain functions over
integers and flat buffers: they run as they are on lists, for one pattern, and compiled by numba on arrays, for
streams (`compiled`). All take the 32 byte addresses of a warp, the mask of its active lanes (bit 0: lane 0) and
`scratch`, a buffer of `SCRATCH` integers that the caller makes once, zeroed, and never looks into.

A line has 32 words of 4 bytes, as many as there are banks, so the bank of a word is its place in its line. The words
that a request touches in a line are therefore one 32-bit mask, and words that conflict are a bit set in several masks.
"""

from __future__ import annotations

import functools
from types import FunctionType, SimpleNamespace
from typing import Any

__all__ = [
    "ATOMIC", "CAS", "LDMATRIX_X1", "LDMATRIX_X2", "LDMATRIX_X4", "LINES", "LOAD", "OUT", "RED", "SCRATCH",
    "SHARED_ATOMIC", "SHARED_CAS", "STORE", "STORE_DEPTH", "STORE_DEPTH_NARROW", "atomic_request", "compiled",
    "contiguous_request", "global_request", "many_requests", "many_shared_requests", "shared_request", "tag_bank",
]  # fmt: skip

LOAD, STORE, SHARED_ATOMIC, LDMATRIX_X1, LDMATRIX_X2, LDMATRIX_X4, ATOMIC, RED, CAS, SHARED_CAS = range(10)
STORE_DEPTH = 8  # tag wavefronts of a store that share data wavefronts, at its beginning
STORE_DEPTH_NARROW = 4  # the same for 1 and 2 bytes a lane
LINES = 64  # entries that `lines` must have: 32 lanes, each on a line boundary
OUT = 8  # entries that `out` must have
# 0 masks[8][64 lines] · 512 table[128] · 704 line[64] · 768 lines of a bank[4][64] · 1024 bank[64]; later 704 holds tag
# wavefronts and 1024 masks. An atomic: 0 masks[32 turns][4 banks][4] · 768 lanes[4][32] · 896 line of a lane · 928 its
# word · 960 turns[64] of a line.
SCRATCH = 1088


def tag_bank(line: int, mask0: int, mask1: int) -> int:
    """The tag bank of a line: bit i is the parity of `line & mask_i`."""
    low = line & mask0
    low ^= low >> 32
    low ^= low >> 16
    high = line & mask1
    high ^= high >> 32
    high ^= high >> 16
    fold = (low & 0xFFFF) | ((high & 0xFFFF) << 16)
    fold ^= fold >> 8
    fold ^= fold >> 4
    fold ^= fold >> 2
    fold ^= fold >> 1
    return (fold & 1) | ((fold >> 15) & 2)


def _find(line: int, count: int, scratch: Any) -> int:
    """Number under which `line` was seen, or `count` if it is new: then it is entered. The table begins as zeros."""
    slot = (line ^ (line >> 7) ^ (line >> 14)) & 127
    while True:
        index = int(scratch[512 + slot])
        if index == 0:
            scratch[512 + slot] = count + 1
            scratch[704 + count] = line
            return count
        if scratch[703 + index] == line:
            return index - 1
        slot = (slot + 1) & 127


def _most_in_a_bank(masks: Any, first: int, count: int) -> int:
    """The most masks that have a bit in common, of the `count` from `first` on."""
    c0 = c1 = c2 = c3 = c4 = c5 = c6 = 0  # binary digits of 32 counters, counted all at once
    for i in range(first, first + count):
        carry = int(masks[i])
        c0, carry = c0 ^ carry, c0 & carry
        c1, carry = c1 ^ carry, c1 & carry
        c2, carry = c2 ^ carry, c2 & carry
        c3, carry = c3 ^ carry, c3 & carry
        c4, carry = c4 ^ carry, c4 & carry
        c5, carry = c5 ^ carry, c5 & carry
        c6 ^= carry
    left = 0xFFFFFFFF  # the banks that can still hold the largest counter, taken from its highest digit down
    most = 0
    for digit, bits in ((64, c6), (32, c5), (16, c4), (8, c3), (4, c2), (2, c1), (1, c0)):
        if left & bits != 0:
            left &= bits
            most += digit
    return most


def _layers(a: int, b: int, c: int, d: int) -> int:
    """The most of four masks that have a bit in common, 0 if all are empty."""
    if a | b | c | d == 0:
        return 0
    if (a & b) | (c & d) | ((a | b) & (c | d)) == 0:
        return 1
    if (a & b & (c | d)) | (c & d & (a | b)) == 0:
        return 2
    return 3 if a & b & c & d == 0 else 4


def contiguous_request(base: int, width: int, op: int, bank_masks: Any, lines: Any, out: Any) -> int:
    """`global_request` of 32 active lanes that lie side by side from `base` on, a multiple of min(width, 4)."""
    # At most five lines, and no group has two words in a bank.
    mask0 = int(bank_masks[0])
    mask1 = int(bank_masks[1])
    shift = 5
    if width == 8:
        shift = 4
    elif width == 16:
        shift = 3
    stop = base + 32 * width
    first = base >> 7
    count = ((stop - 1) >> 7) - first + 1
    sectors = 0
    tally = 0  # lines so far in each tag bank, 8 bits each
    tag_wavefronts = 0
    wavefronts = 0
    ranks = 0  # tag wavefront of each line, 8 bits each
    for i in range(count):
        start = (first + i) << 7
        bank = 8 * tag_bank(first + i, mask0, mask1)
        rank = (tally >> bank) & 255
        tally += 1 << bank
        ranks |= rank << (8 * i)
        tag_wavefronts = max(tag_wavefronts, rank + 1)
        low = max(base - start, 0)
        high = min(stop - start, 128)  # bytes low to high - 1 of this line
        touched = (1 << ((high + 31) >> 5)) - (1 << (low >> 5))
        covered = 0
        if high >> 5 > (low + 31) >> 5:
            covered = (1 << (high >> 5)) - (1 << ((low + 31) >> 5))
        sectors += ((high + 31) >> 5) - (low >> 5)
        lines[i] = ((first + i) << 16) | (covered << 4) | touched
    step = width << shift
    for begin in range(base, stop, step):
        i = (begin >> 7) - first
        wavefronts += 1
        split = (ranks >> (8 * i)) & 255 != (ranks >> (8 * i + 8)) & 255  # this line and the next
        if op == LOAD and split and (begin + step - 1) >> 7 != begin >> 7:
            wavefronts += 1
    out[0] = sectors
    out[1] = count
    out[2] = tag_wavefronts
    out[3] = wavefronts
    out[4] = count
    return count


def global_request(
    addresses: Any, active: int, width: int, op: int, bank_masks: Any, lines: Any, out: Any, scratch: Any
) -> int:
    """Coalesce a global load or store; return the number of lines, written to `lines` in the order of first touch.

    A line word is `line << 16 | covered << 4 | touched`: `touched` has a bit for each sector with a byte of an active
    lane, `covered` for each sector all of whose bytes are accessed. `out`: sectors, tags, tag wavefronts, data
    wavefronts, L2 requests if all miss.

    Tag wavefronts: four tag banks, one tag a bank and wavefront, so as many as the fullest bank has lines. Data
    wavefronts: the k-th new line of its bank goes through in tag wavefront k, and in it each lane group (32 lanes of
    up to 4 bytes, 16 of 8, 8 of 16) takes as many wavefronts as one data bank has distinct words. The first
    STORE_DEPTH tag wavefronts of a store are taken together (for 1 and 2 bytes STORE_DEPTH_NARROW), as on a cold L1.
    """
    shift = 5  # lanes of a group, as a power of two
    if width == 8:
        shift = 4
    elif width == 16:
        shift = 3
    mask0 = int(bank_masks[0])
    mask1 = int(bank_masks[1])
    sectors = 0
    tally = 0  # lines so far in each tag bank, 8 bits each
    tag_wavefronts = 0
    wavefronts = 0

    base = int(addresses[0])
    apart = active ^ 0xFFFFFFFF  # 0 as long as each lane lies next to the one before
    low_bits = 0
    rises = falls = 0  # negative once an address is less, or more, than the one before
    for lane in range(32):
        address = int(addresses[lane])
        apart |= address ^ (base + lane * width)
        low_bits |= address
    for lane in range(1, 32):
        rises |= int(addresses[lane]) - int(addresses[lane - 1])
        falls |= int(addresses[lane - 1]) - int(addresses[lane])
    if apart == 0 and base & (min(width, 4) - 1) == 0:
        return contiguous_request(base, width, op, bank_masks, lines, out)

    # The lines; for each, the words that each lane group touches and, unless they are whole, the bytes of each sector.
    whole_words = width >= 4 and low_bits & (width - 1) == 0
    count = 0
    last = -1  # line of the piece before, `index` its number
    index = -1
    if whole_words and (rises >= 0 or falls >= 0):  # a line is new if it is not that of the lane before
        words = 0  # of the lane group so far
        group = 0
        for lane in range(32):
            if (active >> lane) & 1:
                address = int(addresses[lane])
                line = address >> 7
                if line != last or lane >> shift != group:
                    if last >= 0:
                        scratch[64 * group + index] = words
                    words = 0
                    group = lane >> shift
                if line != last:
                    last = line
                    index = count
                    count += 1
                    scratch[704 + index] = line
                    if shift < 5:
                        scratch[index] = 0
                        scratch[64 + index] = 0
                        if shift < 4:
                            scratch[128 + index] = 0
                            scratch[192 + index] = 0
                words |= ((1 << (width >> 2)) - 1) << ((address & 127) >> 2)
        if count > 0:
            scratch[64 * group + index] = words
    elif whole_words:
        for i in range(512, 640):
            scratch[i] = 0
        for lane in range(32):
            if (active >> lane) & 1:
                address = int(addresses[lane])
                line = address >> 7
                if line != last:
                    last = line
                    index = _find(line, count, scratch)
                    if index == count:
                        count += 1
                        scratch[index] = 0
                        if shift < 5:
                            scratch[64 + index] = 0
                            if shift < 4:
                                scratch[128 + index] = 0
                                scratch[192 + index] = 0
                scratch[64 * (lane >> shift) + index] |= ((1 << (width >> 2)) - 1) << ((address & 127) >> 2)
    else:
        for i in range(512, 640):
            scratch[i] = 0
        for lane in range(32):
            if (active >> lane) & 1:
                begin = int(addresses[lane])
                stop = begin + width
                while begin < stop:
                    line = begin >> 7
                    if line != last:
                        last = line
                        index = _find(line, count, scratch)
                        if index == count:
                            count += 1
                            for i in range(8):
                                scratch[64 * i + index] = 0
                    until = min(stop, ((begin >> 5) + 1) << 5)  # one sector at a time
                    scratch[256 + 64 * ((begin >> 5) & 3) + index] |= ((1 << (until - begin)) - 1) << (begin & 31)
                    low = (begin & 127) >> 2
                    high = (((until - 1) & 127) >> 2) + 1
                    scratch[64 * (lane >> shift) + index] |= (1 << high) - (1 << low)
                    begin = until

    for i in range(count):  # short loops, most of which compile to vector instructions
        scratch[1024 + i] = tag_bank(int(scratch[704 + i]), mask0, mask1)
    if whole_words:
        groups = 32 >> shift
        for i in range(count):  # bits of a byte of `words` are the eight words of a sector
            words = int(scratch[i])
            if groups > 1:
                words |= int(scratch[64 + i])
            if groups > 2:
                words |= int(scratch[128 + i]) | int(scratch[192 + i])
            some = words | (words >> 4)
            some |= some >> 2
            some = (some | (some >> 1)) & 0x01010101
            every = words & (words >> 4)
            every &= every >> 2
            every &= every >> 1 & 0x01010101
            sectors += ((some * 0x01010101) >> 24) & 15
            touched = ((some * 0x01020408) >> 24) & 15
            covered = ((every * 0x01020408) >> 24) & 15
            lines[i] = (int(scratch[704 + i]) << 16) | (covered << 4) | touched
    else:
        for i in range(count):
            touched = 0
            covered = 0
            for sector in range(4):
                piece = int(scratch[256 + 64 * sector + i])
                if piece != 0:
                    sectors += 1
                    touched |= 1 << sector
                    if piece == 0xFFFFFFFF:
                        covered |= 1 << sector
            lines[i] = (int(scratch[704 + i]) << 16) | (covered << 4) | touched
    for i in range(count):
        bank = 8 * int(scratch[1024 + i])
        rank = (tally >> bank) & 255
        tally += 1 << bank
        scratch[768 + 8 * bank + rank] = i
        scratch[704 + i] = rank
    for bank in range(4):
        tag_wavefronts = max(tag_wavefronts, (tally >> (8 * bank)) & 255)

    first_rank = 0
    if op == STORE:
        first_rank = STORE_DEPTH if width >= 4 else STORE_DEPTH_NARROW
        for group in range(32 >> shift):
            if tag_wavefronts <= first_rank:
                wavefronts += _most_in_a_bank(scratch, 64 * group, count)
                continue
            early = 0
            for i in range(count):
                if scratch[704 + i] < first_rank:
                    scratch[1024 + early] = scratch[64 * group + i]
                    early += 1
            wavefronts += _most_in_a_bank(scratch, 1024, early)
    # At most four lines a tag wavefront, one of each bank: how many of them have a word in the same data bank?
    for rank in range(first_rank, tag_wavefronts):
        for group in range(32 >> shift):
            a = b = c = d = 0
            if rank < tally & 255:
                a = int(scratch[int(scratch[768 + rank]) + 64 * group])
            if rank < (tally >> 8) & 255:
                b = int(scratch[int(scratch[832 + rank]) + 64 * group])
            if rank < (tally >> 16) & 255:
                c = int(scratch[int(scratch[896 + rank]) + 64 * group])
            if rank < (tally >> 24) & 255:
                d = int(scratch[int(scratch[960 + rank]) + 64 * group])
            wavefronts += _layers(a, b, c, d)
    out[0] = sectors
    out[1] = count
    out[2] = tag_wavefronts
    out[3] = wavefronts
    out[4] = count
    return count


def atomic_request(
    addresses: Any, active: int, width: int, bank_masks: Any, lines: Any, out: Any, scratch: Any, op: int = ATOMIC
) -> int:
    """Coalesce a global atomic; return the number of lines, written to `lines` as by `global_request`.

    `op` is ATOMIC, RED (no result) or CAS. Each tag bank takes its lanes in turns. In a turn the line of the first
    lane left is looked up; with it go the lanes on that line (CAS: on its half) that come first on their word of a
    line, among all lanes left in the bank. A turn is one L2 request; turn k of every bank is tag wavefront k. Sectors
    and requests are summed over turns; a line word holds the line's requests - 1 in bits 8-12.

    Data wavefronts: for each tag wavefront and lane group as many as one data bank has lines, and as many again if the
    old values come back. Operands of CAS are twice as wide. On their way out, if no line of a tag wavefront has two
    lanes, banks 4 apart (words w and w ^ 4) count as one, for CAS those of a whole sector. `out` as for loads.
    """
    count = global_request(addresses, active, width, LOAD, bank_masks, lines, out, scratch)
    mask0 = int(bank_masks[0])
    mask1 = int(bank_masks[1])
    piece = 6 if op == CAS else 7
    values = 5  # lanes of a group that gets its old values at once, as a power of two
    unit = 2  # lanes conflict in words of a power of two bytes
    if width == 8:
        values, unit = 4, 3
    elif width == 16:
        values, unit = 3, 4
    operands = max(values - 1, 3) if op == CAS else values  # the same for sending
    words = (1 << max(width >> 2, 1)) - 1
    sizes = 0  # lanes of each tag bank, 8 bits each
    index = 0
    for lane in range(32):
        if (active >> lane) & 1:
            line = int(addresses[lane]) >> 7
            while int(lines[index]) >> 16 != line:
                index = (index + 1) % count
            bank = tag_bank(line, mask0, mask1)
            scratch[768 + 32 * bank + ((sizes >> (8 * bank)) & 255)] = lane
            sizes += 1 << (8 * bank)
            scratch[896 + lane] = index
            scratch[928 + lane] = (int(addresses[lane]) & 127) >> unit
    for i in range(count):
        scratch[960 + i] = 0

    sectors = 0
    requests = 0
    turns = 0  # of each bank, 8 bits each
    crowded = 0  # bit k: a turn k took several lanes
    tag_wavefronts = 0
    for bank in range(4):
        left = (sizes >> (8 * bank)) & 255
        turn = 0
        while left != 0:
            cell = 16 * turn + 4 * bank
            for group in range(4):
                scratch[cell + group] = 0
            first = int(scratch[768 + 32 * bank])
            chosen = int(addresses[first]) >> piece
            scratch[960 + int(scratch[896 + first])] += 1
            seen = 0
            touched = 0
            kept = 0
            for i in range(768 + 32 * bank, 768 + 32 * bank + left):
                lane = int(scratch[i])
                address = int(addresses[lane])
                word = 1 << int(scratch[928 + lane])
                if address >> piece == chosen and seen & word == 0:
                    touched |= 1 << ((address >> 5) & 3)
                    mask = (words << ((address & 127) >> 2)) & 0xFFFFFFFF
                    scratch[cell + (lane >> operands)] |= mask
                else:
                    scratch[768 + 32 * bank + kept] = lane
                    kept += 1
                seen |= word
            if left - kept > 1:
                crowded |= 1 << turn
            left = kept
            turn += 1
            sectors += (touched & 1) + ((touched >> 1) & 1) + ((touched >> 2) & 1) + (touched >> 3)
        requests += turn
        turns |= turn << (8 * bank)
        tag_wavefronts = max(tag_wavefronts, turn)

    wavefronts = 0
    for turn in range(tag_wavefronts):
        for bank in range(4):
            if turn >= (turns >> (8 * bank)) & 255:
                for group in range(4):
                    scratch[16 * turn + 4 * bank + group] = 0
        alone = (crowded >> turn) & 1 == 0
        for group in range(32 >> operands):
            for bank in range(4):
                mask = int(scratch[16 * turn + 4 * bank + group])
                if op == CAS and alone:  # a bit for each sector
                    mask |= mask >> 4
                    mask |= mask >> 2
                    mask = (mask | (mask >> 1)) & 0x01010101
                elif op == CAS:
                    mask = (mask | (mask >> 16)) & 0xFFFF
                elif alone:
                    mask = (mask | (mask >> 4)) & 0x0F0F0F0F
                scratch[1024 + bank] = mask
            wavefronts += _layers(int(scratch[1024]), int(scratch[1025]), int(scratch[1026]), int(scratch[1027]))
        split = values - operands
        for group in range(32 >> values if op != RED else 0):
            for bank in range(4):
                cell = 16 * turn + 4 * bank + (group << split)
                scratch[1024 + bank] = int(scratch[cell]) | int(scratch[cell + (1 << split) - 1])
            wavefronts += _layers(int(scratch[1024]), int(scratch[1025]), int(scratch[1026]), int(scratch[1027]))
    for i in range(count):
        lines[i] |= (int(scratch[960 + i]) - 1) << 8
    out[0] = sectors
    out[2] = tag_wavefronts
    out[3] = wavefronts
    out[4] = requests
    return count


def shared_request(addresses: Any, active: int, width: int, op: int, out: Any, scratch: Any) -> int:
    """Wavefronts of a shared-memory request; `out`: wavefronts, lane groups; their difference is the conflicts.

    The bank of a byte is `address // 4 % 32`. A lane group (as in `global_request`; for ldmatrix the 8 lanes that give
    a matrix its rows) takes as many wavefronts as one bank has distinct words. Loads of 8 and 16 bytes merge
    neighbouring groups if every lane pair (t, t^1), or every pair (t, t^2), has one address or an idle lane. A group of
    an atomic takes as many as one bank has lanes, compare and swap twice that, which is no conflict the first time.
    """
    shift = 5
    if width == 8:
        shift = 4
    elif width == 16:
        shift = 3
    if op == LOAD and width >= 8:
        for step in range(1, 3):
            merged = True
            for lane in range(32):
                if (active >> lane) & (active >> (lane ^ step)) & 1 and addresses[lane] != addresses[lane ^ step]:
                    merged = False
                    break
            if merged:
                shift += 1
                break
    elif op == LDMATRIX_X1:
        active &= 0xFF
    elif op == LDMATRIX_X2:
        active &= 0xFFFF

    wavefronts = 0
    groups = 0
    for group in range(32 >> shift):
        begin_lane = group << shift
        members = (active >> begin_lane) & ((1 << (1 << shift)) - 1)
        if members == 0:
            continue
        groups += 1
        if op in (SHARED_ATOMIC, SHARED_CAS):
            for bank in range(32):
                scratch[bank] = 0
            most = 0
            for lane in range(begin_lane, begin_lane + (1 << shift)):
                if (active >> lane) & 1:
                    bank = (int(addresses[lane]) >> 2) & 31
                    scratch[bank] += 1
                    most = max(most, int(scratch[bank]))
            wavefronts += most
            if op == SHARED_CAS:
                wavefronts += most
                groups += most
            continue
        # Rows of 32 words, one a bank, and the words touched in each.
        for i in range(512, 640):
            scratch[i] = 0
        count = 0
        last = -1
        index = 0
        for lane in range(begin_lane, begin_lane + (1 << shift)):
            if (active >> lane) & 1:
                begin = int(addresses[lane])
                stop = begin + width
                while begin < stop:
                    row = begin >> 7
                    if row != last:
                        last = row
                        index = _find(row, count, scratch)
                        if index == count:
                            count += 1
                            scratch[index] = 0
                    until = min(stop, (row + 1) << 7)
                    low = (begin & 127) >> 2
                    high = (((until - 1) & 127) >> 2) + 1
                    scratch[index] |= (1 << high) - (1 << low)
                    begin = until
        wavefronts += _most_in_a_bank(scratch, 0, count)
    out[0] = wavefronts
    out[1] = groups
    return wavefronts


def many_requests(
    addresses: Any, active: Any, width: int, op: int, bank_masks: Any, lines: Any, out: Any, scratch: Any, results: Any
) -> None:
    """`global_request` of each row of `addresses`, `atomic_request` for atomics. Rows of `results` are as `out`."""
    for row in range(len(active)):
        if op >= ATOMIC:
            atomic_request(addresses[row], active[row], width, bank_masks, lines, out, scratch, op)
        else:
            global_request(addresses[row], active[row], width, op, bank_masks, lines, out, scratch)
        for i in range(5):
            results[row][i] = out[i]


def many_shared_requests(
    addresses: Any, active: Any, width: int, op: int, out: Any, scratch: Any, results: Any
) -> None:
    """`shared_request` of each row of `addresses`; a row of `results` is wavefronts and groups."""
    for row in range(len(active)):
        shared_request(addresses[row], active[row], width, op, out, scratch)
        results[row][0] = out[0]
        results[row][1] = out[1]


@functools.cache
def compiled() -> SimpleNamespace:
    """The same functions compiled by numba: on int64 arrays (`lines`: uint64), `bank_masks` int64 as well."""
    from warpsim.compilation import njit

    functions = (
        tag_bank, _find, _most_in_a_bank, _layers, contiguous_request, global_request, atomic_request, shared_request,
        many_requests, many_shared_requests,
    )  # fmt: skip
    names: dict[str, Any] = {**globals()}
    for function in functions:
        copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
        copy.__module__ = __name__
        names[function.__name__] = njit(copy, nogil=True)
    return SimpleNamespace(**{function.__name__: names[function.__name__] for function in functions})
