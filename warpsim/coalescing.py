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
    "ATOMIC", "LDMATRIX_X1", "LDMATRIX_X2", "LDMATRIX_X4", "LINES", "LOAD", "OUT", "SCRATCH", "SHARED_ATOMIC", "STORE",
    "atomic_request", "compiled", "global_request", "many_requests", "many_shared_requests", "shared_request",
    "tag_bank",
]  # fmt: skip

LOAD, STORE, SHARED_ATOMIC, LDMATRIX_X1, LDMATRIX_X2, LDMATRIX_X4, ATOMIC = range(7)
LINES = 64  # entries that `lines` must have: 32 lanes, each on a line boundary
OUT = 8  # entries that `out` must have
# 0 masks[64 lines][8] · 512 table[128] · 640 slot[64] · 704 line[64] · 768 lines of a bank[4][64] · 1024 bank[64]
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
    """The number under which `line` was seen before, or `count` if it is new (then it has been entered)."""
    slot = (line ^ (line >> 7) ^ (line >> 14)) & 127
    while True:
        index = int(scratch[512 + slot])
        if index >= count or scratch[640 + index] != slot:  # what an earlier call left there
            scratch[512 + slot] = count
            scratch[640 + count] = slot
            scratch[704 + count] = line
            return count
        if scratch[704 + index] == line:
            return index
        slot = (slot + 1) & 127


def _most_in_a_bank(masks: Any, first: int, step: int, count: int) -> int:
    """The most masks that have a bit in common, of the `count` at `first`, `first + step` and so on."""
    c0 = c1 = c2 = c3 = c4 = c5 = c6 = 0  # binary digits of 32 counters, counted all at once
    for i in range(first, first + step * count, step):
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


def global_request(
    addresses: Any, active: int, width: int, op: int, bank_masks: Any, lines: Any, out: Any, scratch: Any
) -> int:
    """Coalesce a global load or store; return the number of lines, written to `lines` in the order of first touch.

    A line word is `line << 16 | covered << 4 | touched`: `touched` has a bit for each sector with a byte of an active
    lane, `covered` for each sector all of whose bytes are accessed. `out`: sectors, tags, tag wavefronts, data
    wavefronts, L2 requests if all miss.

    Tag wavefronts: four tag banks, one tag a bank and wavefront, so as many as the fullest bank has lines. Data
    wavefronts: the k-th new line of its bank goes through in tag wavefront k, and in it each lane group (32 lanes of
    up to 4 bytes, 16 of 8, 8 of 16) takes as many wavefronts as one data bank has distinct words. A store's lane
    groups are not cut up by tag wavefronts (a lower bound where those are more than the result).
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
    for lane in range(32):
        address = int(addresses[lane])
        apart |= address ^ (base + lane * width)
        low_bits |= address
    if apart == 0 and base & (min(width, 4) - 1) == 0:  # at most five lines, and no group has two words in a bank
        stop = base + 32 * width
        first = base >> 7
        count = ((stop - 1) >> 7) - first + 1
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

    # The lines; for each, the words that each lane group touches and, unless they are whole, the bytes of each sector.
    whole_words = width >= 4 and low_bits & (width - 1) == 0
    count = 0
    last = -1  # line of the piece before, `index` its number
    index = 0
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
                        for i in range(8 * index, 8 * index + 8):
                            scratch[i] = 0
                    index *= 8
                if whole_words:
                    scratch[index + (lane >> shift)] |= ((1 << (width >> 2)) - 1) << ((begin & 127) >> 2)
                    break
                until = min(stop, ((begin >> 5) + 1) << 5)  # one sector at a time
                scratch[index + 4 + ((begin >> 5) & 3)] |= ((1 << (until - begin)) - 1) << (begin & 31)
                low = (begin & 127) >> 2
                high = (((until - 1) & 127) >> 2) + 1
                scratch[index + (lane >> shift)] |= (1 << high) - (1 << low)
                begin = until

    for i in range(count):  # a loop of its own: it compiles to vector instructions
        scratch[1024 + i] = tag_bank(int(scratch[704 + i]), mask0, mask1)
    for i in range(count):
        line = int(scratch[704 + i])
        bank = int(scratch[1024 + i])
        rank = (tally >> (8 * bank)) & 255
        tally += 1 << (8 * bank)
        scratch[768 + 64 * bank + rank] = 8 * i
        tag_wavefronts = max(tag_wavefronts, rank + 1)
        touched = 0
        covered = 0
        if whole_words:  # bits of a byte of `words` are the eight words of a sector
            words = int(scratch[8 * i]) | int(scratch[8 * i + 1]) | int(scratch[8 * i + 2]) | int(scratch[8 * i + 3])
            some = words | (words >> 4)
            some |= some >> 2
            some |= some >> 1
            touched = (((some & 0x01010101) * 0x01020408) >> 24) & 15
            every = words & (words >> 4)
            every &= every >> 2
            every &= every >> 1
            covered = (((every & 0x01010101) * 0x01020408) >> 24) & 15
        else:
            for sector in range(4):
                piece = int(scratch[8 * i + 4 + sector])
                if piece != 0:
                    touched |= 1 << sector
                    if piece == 0xFFFFFFFF:
                        covered |= 1 << sector
        sectors += (touched & 1) + ((touched >> 1) & 1) + ((touched >> 2) & 1) + (touched >> 3)
        lines[i] = (line << 16) | (covered << 4) | touched

    if op == STORE:
        for group in range(32 >> shift):
            wavefronts += _most_in_a_bank(scratch, group, 8, count)
    # At most four lines a tag wavefront, one of each bank: how many of them have a word in the same data bank?
    for rank in range(tag_wavefronts if op == LOAD else 0):
        for group in range(32 >> shift):
            a = b = c = d = 0
            if rank < tally & 255:
                a = int(scratch[int(scratch[768 + rank]) + group])
            if rank < (tally >> 8) & 255:
                b = int(scratch[int(scratch[832 + rank]) + group])
            if rank < (tally >> 16) & 255:
                c = int(scratch[int(scratch[896 + rank]) + group])
            if rank < (tally >> 24) & 255:
                d = int(scratch[int(scratch[960 + rank]) + group])
            if a | b | c | d != 0:
                wavefronts += 1
                if (a & b) | (c & d) | ((a | b) & (c | d)) != 0:
                    wavefronts += 1
                    if (a & b & (c | d)) | (c & d & (a | b)) != 0:
                        wavefronts += 1
                        if a & b & c & d != 0:
                            wavefronts += 1
    out[0] = sectors
    out[1] = count
    out[2] = tag_wavefronts
    out[3] = wavefronts
    out[4] = count
    return count


def atomic_request(addresses: Any, active: int, width: int, bank_masks: Any, lines: Any, out: Any, scratch: Any) -> int:
    """Coalesce a global atomic or reduction; return the number of lines, written to `lines` as by `global_request`.

    Lanes on the same word take turns: an operation is as many sectors as the sum over sectors of the most lanes on
    one word, and as many L2 requests as the sum over lines of the same; a line word holds the line's
    operations - 1 in bits 8-12. `out`: sectors, tags, tag wavefronts, data wavefronts (those of a load), L2 requests.
    """
    count = global_request(addresses, active, width, LOAD, bank_masks, lines, out, scratch)
    for i in range(4 * count):
        scratch[i] = 0  # most lanes on a word of each sector
    total = 0
    requests = 0
    for i in range(count):
        line = int(lines[i]) >> 16
        most = 0
        for lane in range(32):
            if (active >> lane) & 1 and int(addresses[lane]) >> 7 == line:
                same = 0
                for other in range(32):
                    if (active >> other) & 1 and addresses[other] == addresses[lane]:
                        same += 1
                sector = 4 * i + ((int(addresses[lane]) >> 5) & 3)
                if same > scratch[sector]:
                    scratch[sector] = same
                most = max(most, same)
        for sector in range(4 * i, 4 * i + 4):
            total += int(scratch[sector])
        requests += most
        lines[i] |= (most - 1) << 8
    out[0] = total
    out[4] = requests
    return count


def shared_request(addresses: Any, active: int, width: int, op: int, out: Any, scratch: Any) -> int:
    """Wavefronts of a shared-memory request; `out`: wavefronts, lane groups; their difference is the conflicts.

    The bank of a byte is `address // 4 % 32`. A lane group (as in `global_request`; for ldmatrix the 8 lanes that give
    a matrix its rows) takes as many wavefronts as one bank has distinct words. Loads of 8 and 16 bytes merge
    neighbouring groups if every lane pair (t, t^1), or every pair (t, t^2), has one address or an idle lane. An
    atomic takes as many as one bank has lanes.
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
        if op == SHARED_ATOMIC:
            for bank in range(32):
                scratch[bank] = 0
            most = 0
            for lane in range(32):
                if (active >> lane) & 1:
                    bank = (int(addresses[lane]) >> 2) & 31
                    scratch[bank] += 1
                    most = max(most, int(scratch[bank]))
            wavefronts += most
            continue
        # Rows of 32 words, one a bank, and the words touched in each.
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
        wavefronts += _most_in_a_bank(scratch, 0, 1, count)
    out[0] = wavefronts
    out[1] = groups
    return wavefronts


def many_requests(
    addresses: Any, active: Any, width: int, op: int, bank_masks: Any, lines: Any, out: Any, scratch: Any, results: Any
) -> None:
    """`global_request` of each row of `addresses`; for ATOMIC `atomic_request`. Rows of `results` are as `out`."""
    for row in range(len(active)):
        if op == ATOMIC:
            atomic_request(addresses[row], active[row], width, bank_masks, lines, out, scratch)
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
        tag_bank, _find, _most_in_a_bank, global_request, atomic_request, shared_request, many_requests,
        many_shared_requests,
    )  # fmt: skip
    names: dict[str, Any] = {**globals()}
    for function in functions:
        copy = FunctionType(function.__code__, names, function.__name__)
        copy.__module__ = __name__
        names[function.__name__] = njit(copy, nogil=True)
    return SimpleNamespace(**{function.__name__: names[function.__name__] for function in functions})
