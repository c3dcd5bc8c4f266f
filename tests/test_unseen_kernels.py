"""Kernels of real programs give what NumPy gives: one of each way in which the front end is used."""

from __future__ import annotations

import base64
import hashlib
import itertools
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpsim.frontend.sass import load_program
from warpsim.frontend.simt import Executor
from warpsim.gpu import load_gpu
from warpsim.kernel import Kernel

pytest.importorskip("cuda.bindings.nvrtc")

KERNELS = Path(__file__).parent / "accuracy" / "kernels"
RNG = np.random.default_rng(5)


def execute(file: str, entry: str, grid: Any, block: Any, args: list[Any], shared: int = 0) -> None:
    """Run a kernel of the accuracy cases on arrays, which hold its results afterwards."""
    source = (KERNELS / f"{file}.cu").read_text()
    launch = Kernel(source, entry).launch(grid, block, args, dynamic_shared=shared)
    Executor(launch, load_program(source, entry, 90), load_gpu("h200")).run()


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def test_prefix_sums_of_bytes() -> None:
    image = RNG.integers(0, 256, (3, 700)).astype(np.uint8)
    out = np.zeros((3, 700), np.int32)
    execute("unseen_images", "integral_rows", 3, 256, [image.ravel(), out.ravel(), 700])
    np.testing.assert_array_equal(out, image.cumsum(1))


def test_bytes_four_at_a_time() -> None:
    cells = RNG.integers(0, 2, (20, 64)).astype(np.uint8)
    out = np.zeros_like(cells)
    execute(
        "unseen_images", "life", (1, 3), (32, 8), [cells.ravel().view(np.uint32), out.ravel().view(np.uint32), 16, 20]
    )
    shifts = [s for s in itertools.product((-1, 0, 1), repeat=2) if s != (0, 0)]
    around = sum(np.roll(cells, s, (0, 1)).astype(int) for s in shifts)
    np.testing.assert_array_equal(out, (around == 3) | ((around == 2) & (cells == 1)))


def test_online_softmax_with_its_gradient() -> None:
    rows, classes = 4, 333
    logits, labels = normal(rows, classes), RNG.integers(0, classes, rows).astype(np.int32)
    loss, gradient = np.zeros(rows, np.float32), np.zeros_like(logits)
    execute("unseen_layers", "cross_entropy", rows, 128, [logits.ravel(), labels, loss, gradient.ravel(), classes])
    softmax = np.exp(logits - logits.max(1, keepdims=True))
    softmax /= softmax.sum(1, keepdims=True)
    at = np.arange(rows), labels
    np.testing.assert_allclose(loss, -np.log(softmax[at]), rtol=1e-4)
    softmax[at] -= 1
    np.testing.assert_allclose(gradient, softmax, atol=1e-5)


def test_four_bit_weights() -> None:
    rows, cols = 5, 1024
    words = RNG.integers(0, 2**32, (rows, cols // 8)).astype(np.uint32)
    scales, x = normal(rows, cols // 128).astype(np.float16), normal(cols).astype(np.float16)
    y = np.zeros(rows, np.float16)
    execute("unseen_layers", "gemv_int4", 2, 128, [words.ravel(), scales.ravel(), x, y, cols, rows])
    weights = (words[..., None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15).reshape(rows, cols).astype(float) - 8
    np.testing.assert_allclose(y, (weights * scales.repeat(128, 1)) @ x.astype(float), rtol=5e-3, atol=0.1)


def test_stable_scatter_by_digit() -> None:
    n, blocks = 2048, 4
    keys, values = RNG.integers(0, 2**32, n).astype(np.uint32), np.arange(n, dtype=np.uint32)
    digits = keys >> 4 & 15
    counts = np.stack([np.bincount(part, minlength=16) for part in digits.reshape(blocks, -1)], 1).ravel()
    offsets = (counts.cumsum() - counts).astype(np.uint32)
    sorted_keys, sorted_values = np.zeros_like(keys), np.zeros_like(values)
    execute("unseen_records", "radix_scatter", blocks, 512, [keys, values, offsets, sorted_keys, sorted_values, 4])
    order = np.argsort(digits, kind="stable")
    np.testing.assert_array_equal(sorted_keys, keys[order])
    np.testing.assert_array_equal(sorted_values, order)


def test_merge_by_diagonals() -> None:
    a, b = (np.sort(RNG.integers(0, 999, n)).astype(np.int32) for n in (500, 333))
    out = np.zeros(833, np.int32)
    execute("unseen_records", "merge_sorted", 1, 128, [a, b, out, 500, 333])
    np.testing.assert_array_equal(out, np.sort(np.concatenate([a, b])))


def test_checksums_from_a_constant_table() -> None:
    records = RNG.integers(0, 256, (300, 64)).astype(np.uint8)
    out = np.zeros(300, np.uint32)
    execute("unseen_records", "crc_records", 2, 256, [records.ravel().view(np.uint32), out, 300])
    np.testing.assert_array_equal(out, [zlib.crc32(record.tobytes()) for record in records])


def test_a_stack_of_ones_own() -> None:
    solutions = np.zeros(512, np.uint32)
    execute("unseen_grids", "queens", 8, 64, [solutions, 8])
    assert solutions.sum() == 92


def test_a_solver_a_thread() -> None:
    size, systems = 7, 40
    lower, upper, x = normal(size, systems), normal(size, systems), normal(size, systems)
    diagonal, scratch = normal(size, systems) + 8, np.zeros((size, systems), np.float32)
    wanted = [
        np.linalg.solve(np.diag(d) + np.diag(a[1:], -1) + np.diag(c[:-1], 1), r)
        for a, d, c, r in zip(lower.T, diagonal.T, upper.T, x.T, strict=True)
    ]
    arrays = [v.ravel() for v in (lower, diagonal, upper, x, scratch)]
    execute("unseen_grids", "thomas_interleaved", 1, 64, [*arrays, size, systems])
    np.testing.assert_allclose(x.T, wanted, rtol=1e-3, atol=1e-5)


def test_asynchronous_copies_two_deep() -> None:
    a, x, y = normal(32, 256), normal(32), np.zeros((2, 256), np.float32)
    execute("unseen_matrices", "column_products<4>", (1, 2), 64, [a.ravel(), x, y.ravel(), 64, 16])
    np.testing.assert_allclose(y, [x[:16] @ a[:16], x[16:] @ a[16:]], rtol=1e-4, atol=1e-5)


def test_factors_in_shared_memory_of_a_warp() -> None:
    a = normal(5, 32, 32)
    a = a @ a.transpose(0, 2, 1) + 8 * np.eye(32, dtype=np.float32)
    out = np.zeros_like(a)
    execute("unseen_matrices", "cholesky32", 2, 128, [a.ravel(), out.ravel(), 5], 4 * 32 * 33 * 4)
    np.testing.assert_allclose(out, np.linalg.cholesky(a), rtol=1e-3, atol=1e-4)


def test_fields_outside_of_quotation_marks() -> None:
    text = RNG.choice(np.frombuffer(b'ab",\n', np.uint8), (3, 2048), p=[0.6, 0.2, 0.05, 0.1, 0.05])
    out = np.zeros((3, 3), np.int32)
    execute("blind_data", "count_fields", 3, 128, [text.ravel().view(np.uint32), out.ravel()])
    inside = (text == ord('"')).cumsum(1) % 2 == 1
    ends = (text == ord(",")) | (text == ord("\n"))
    wanted = [(text == ord('"')).sum(1), (ends & ~inside).sum(1), (ends & inside).sum(1)]
    np.testing.assert_array_equal(out, np.stack(wanted, 1))


def test_chains_of_a_join() -> None:
    keys, asked = RNG.integers(0, 300, 500).astype(np.uint32), RNG.integers(0, 600, 400).astype(np.uint32)
    head, following, amounts = np.full(64, -1, np.int32), np.zeros(500, np.int32), np.arange(500, dtype=np.int32)
    found = np.zeros((400, 2), np.int32)
    execute("blind_data", "build_chains", 2, 256, [keys, head, following, 63, 500])
    execute("blind_data", "probe_chains", 2, 256, [asked, head, following, keys, amounts, found.ravel(), 63, 400])
    same = asked[:, None] == keys
    np.testing.assert_array_equal(found, np.stack([same.sum(1), same @ amounts], 1))


def test_runs_written_out() -> None:
    lengths, values = RNG.integers(1, 9, 500), np.arange(500, dtype=np.int32)
    ends = lengths.cumsum().astype(np.int32)
    out = np.zeros(ends[-1], np.int32)
    execute("blind_data", "expand_runs", -(-out.size // 1024), 256, [ends, values, out, 500, out.size])
    np.testing.assert_array_equal(out, values.repeat(lengths))


def test_absolute_differences_of_four_bytes() -> None:
    now, before = (RNG.integers(0, 256, (48, 48)).astype(np.uint8) for _ in range(2))
    best = np.zeros((3, 3), np.uint32)
    execute(
        "blind_images",
        "motion_search",
        (3, 3),
        128,
        [*(v.ravel().view(np.uint32) for v in (now, before, best)), 12, 48],
    )
    block, window = now[16:32, 16:32].astype(int), before[12:35, 8:40].astype(int)
    places = itertools.product(range(8), range(16))
    wanted = min(np.abs(window[y : y + 16, x : x + 16] - block).sum() * 256 + 16 * y + x for y, x in places)
    assert best[1, 1] == wanted


def test_rays_that_end_early() -> None:
    side = 12
    volume = np.full((side, side, side), 255, np.uint8)
    volume[:, :, : side // 2] = 0
    out = np.zeros((1, 16), np.float32)
    execute("blind_images", "march_volume", 1, (16, 8), [volume.ravel(), out.ravel(), side, 16, 1, 0.0, 9])
    assert (out[0, :10] == 0).all()
    np.testing.assert_allclose(out[0, -2:], 1 - 0.75**9, rtol=1e-5)


def test_digests_of_one_block() -> None:
    messages = RNG.integers(0, 256, (40, 52)).astype(np.uint8)
    words, out = np.ascontiguousarray(messages.view(">u4").T.astype(np.uint32)), np.zeros((8, 40), np.uint32)
    execute("blind2_codes", "sha256_short", 1, 256, [words.ravel(), out.ravel(), 40])
    wanted = [np.frombuffer(hashlib.sha256(message.tobytes()).digest(), ">u4") for message in messages]
    np.testing.assert_array_equal(out.T, wanted)


def test_letters_of_six_bits() -> None:
    data, letters = RNG.integers(0, 256, 1200).astype(np.uint8), np.zeros(1600, np.uint8)
    execute("blind2_codes", "base64_encode", 1, 64, [data.view(np.uint32), letters.view(np.uint32), 100])
    assert letters.tobytes() == base64.b64encode(data.tobytes())


def test_tables_of_a_prefix_code() -> None:
    at = np.arange(256)
    bits = np.select([at < 64, at < 128, at < 192], [2, 3, 4], 6)
    table, symbols = (16 * (at >> (8 - bits)) + bits).astype(np.uint16), np.zeros((30, 40), np.uint8)
    slots = RNG.integers(0, 256, (30, 32)).astype(np.uint8)
    words = slots.view(">u4").astype(np.uint32)
    execute("blind2_codes", "decode_prefixes", 1, 32, [words.ravel(), table, symbols.ravel().view(np.uint32), 30])
    for slot, found in zip(slots, symbols, strict=True):
        number, place = int.from_bytes(slot.tobytes(), "big"), 256
        for symbol in found:
            entry = int(table[(number >> (place - 8)) & 255])
            assert symbol == entry >> 4
            place -= entry & 15


def test_recurrences_by_a_scan_of_maps() -> None:
    a, x, y = normal(2, 2048) / 2, normal(2, 2048), np.zeros((2, 2048), np.float32)
    execute("blind2_signals", "linear_recurrence", 2, 256, [a.ravel(), x.ravel(), y.ravel()])
    before = np.zeros(2)
    for k in range(2048):
        before = a[:, k] * before + x[:, k]
        np.testing.assert_allclose(y[:, k], before, rtol=1e-3, atol=1e-4)


def test_series_warped_by_a_wavefront_of_lanes() -> None:
    queries, others, out = normal(3, 128), normal(3, 128), np.zeros(3, np.float32)
    execute("blind2_signals", "warp_series", 1, 128, [queries.ravel(), others.ravel(), out, 3])
    for query, other, found in zip(queries, others, out, strict=True):
        cost = np.full((129, 129), np.inf)
        cost[0, 0] = 0
        for i, j in itertools.product(range(128), range(128)):
            cost[i + 1, j + 1] = (query[j] - other[i]) ** 2 + min(cost[i, j], cost[i, j + 1], cost[i + 1, j])
        np.testing.assert_allclose(found, cost[-1, -1], rtol=1e-4)


def test_regions_of_a_tile() -> None:
    image = (RNG.random((32, 32)) < 0.6).astype(np.uint8)
    labels, wanted = np.zeros((32, 32), np.int32), np.where(image, np.arange(1024).reshape(32, 32), 9999)
    execute("blind2_scenes", "label_tiles", 1, (32, 32), [image.ravel(), labels.ravel(), 32, 1])
    for _ in range(1024):
        edge = np.pad(wanted, 1, constant_values=9999)
        around = np.minimum.reduce([edge[:-2, 1:-1], edge[2:, 1:-1], edge[1:-1, :-2], edge[1:-1, 2:], wanted])
        wanted = np.where(image, around, 9999)
    np.testing.assert_array_equal(labels, np.where(image, wanted, -1))
