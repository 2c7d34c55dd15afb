"""Codes to bit planes, 64 rows to a word: binary digits of the codes first, other patterns from words of digits.

Eight codes of a row lie in one word of eight bytes, so that a digit of 64 codes takes a few vector instructions.
"""

from __future__ import annotations

import numpy as np

from hbm_learn._kernels.compiled import njit

# The lowest bit of every byte.
_LOWEST = np.uint64(0x0101010101010101)
# Columns are taken in so many bytes, that loops of words have no remainder.
_BYTES = 64
# Words gathered before they are written: a line of memory is written at once.
_LINE = 8


@njit(cache=True, nogil=True)
def _read(codes, first, out):
    """out[r] ← codes[first + r], and zeros for rows that are not there."""
    for r in range(len(out)):
        bytes_of_row = out[r]
        if first + r < len(codes):
            row = codes[first + r]
            for i in range(len(row)):
                bytes_of_row[i] = row[i]
        else:
            bytes_of_row[:] = 0


@njit(cache=True, nogil=True)
def _digits(rows, shift, out):
    """out[g] ← bit ``shift`` of every byte of rows 8 g … 8 g + 7, a byte for the eight; the first row's lowest."""
    one = np.uint64(1)
    for g in range(len(out)):
        r0, r1, r2, r3 = rows[8 * g], rows[8 * g + 1], rows[8 * g + 2], rows[8 * g + 3]
        r4, r5, r6, r7 = rows[8 * g + 4], rows[8 * g + 5], rows[8 * g + 6], rows[8 * g + 7]
        eights = out[g]
        for k in range(len(eights)):
            bits = (r7[k] >> shift) & _LOWEST
            bits = (bits << one) | ((r6[k] >> shift) & _LOWEST)
            bits = (bits << one) | ((r5[k] >> shift) & _LOWEST)
            bits = (bits << one) | ((r4[k] >> shift) & _LOWEST)
            bits = (bits << one) | ((r3[k] >> shift) & _LOWEST)
            bits = (bits << one) | ((r2[k] >> shift) & _LOWEST)
            bits = (bits << one) | ((r1[k] >> shift) & _LOWEST)
            eights[k] = (bits << one) | ((r0[k] >> shift) & _LOWEST)


@njit(cache=True, nogil=True)
def _join(eights, out):
    """out[i] ← the eight bytes of column i as a word, the first lowest."""
    byte = np.uint64(8)
    for i in range(len(out)):
        word = np.uint64(eights[7, i])
        word = (word << byte) | np.uint64(eights[6, i])
        word = (word << byte) | np.uint64(eights[5, i])
        word = (word << byte) | np.uint64(eights[4, i])
        word = (word << byte) | np.uint64(eights[3, i])
        word = (word << byte) | np.uint64(eights[2, i])
        word = (word << byte) | np.uint64(eights[1, i])
        out[i] = (word << byte) | np.uint64(eights[0, i])


@njit(cache=True, nogil=True)
def _select(digits, chosen, rows, mine, out):
    """out[b] ← the rows whose codes are chosen for plane b: chosen[b, a, i] is all ones where code a at site i is."""
    n_digits, n = digits.shape
    out[:] = 0
    for a in range(chosen.shape[1]):
        for i in range(n):
            mine[i] = rows
        for d in range(n_digits):
            digit = digits[d]
            flip = np.uint64(0) if (a >> d) & 1 else ~np.uint64(0)
            for i in range(n):
                mine[i] &= digit[i] ^ flip
        for b in range(len(chosen)):
            mask, plane = chosen[b, a], out[b]
            for i in range(n):
                plane[i] |= mine[i] & mask[i]


@njit(cache=True, nogil=True, error_model="numpy")
def pack(codes, patterns, plane_ptr, planes, first_word, last_word):
    """planes[·, plane_ptr[i] + b, ·] ← bit b of patterns[i, codes[r, i]], for the 64 rows r of each word of a range.

    Parameters
    ----------
    codes : (m, n) uint8
    patterns : (n, q) uint64
        The bits of each code at each site.
    plane_ptr : (n + 1,) int64
        The planes of site i are ``plane_ptr[i]:plane_ptr[i + 1]``.
    planes : (blocks, P or more, width) uint64
        Words in blocks of ``width``, a multiple of 8.
    first_word, last_word : int
        The words to write, last_word left out; multiples of 8. Bits of rows that are not there are 0.
    """
    n_rows, n = codes.shape
    q = patterns.shape[1]
    most, are_codes = 0, True  # the planes wanted may be the digits
    for i in range(n):
        most = max(most, plane_ptr[i + 1] - plane_ptr[i])
        for a in range(q):
            are_codes = are_codes and patterns[i, a] == a
    n_digits = 0
    while (q - 1) >> n_digits:
        n_digits += 1
    width = -(-n // _BYTES) * _BYTES
    chosen = np.zeros((most, 0 if are_codes else q, width), dtype=np.uint64)
    for b in range(len(chosen)):
        for a in range(chosen.shape[1]):
            for i in range(n):
                if (patterns[i, a] >> np.uint64(b)) & np.uint64(1):
                    chosen[b, a, i] = ~np.uint64(0)
    rows = np.zeros((64, width // 8), dtype=np.uint64)
    eights = np.zeros((8, width // 8), dtype=np.uint64)
    row_bytes, eight_bytes = rows.view(np.uint8), eights.view(np.uint8)
    digits = np.zeros((max(n_digits, most), width), dtype=np.uint64)
    mine = np.empty(width, dtype=np.uint64)
    line = np.empty((_LINE, most, width), dtype=np.uint64)
    for start in range(first_word, last_word, _LINE):
        block, place = start // planes.shape[2], start % planes.shape[2]
        for w in range(_LINE):
            first = 64 * (start + w)
            _read(codes, first, row_bytes)
            for d in range(n_digits):
                _digits(rows, np.uint64(d), eights)
                _join(eight_bytes, digits[d])
            if are_codes:
                for b in range(most):
                    for i in range(n):
                        line[w, b, i] = digits[b, i]
            else:
                there = ~np.uint64(0)
                if n_rows - first < 64:
                    there = ~(there << np.uint64(max(n_rows - first, 0)))
                _select(digits[:n_digits], chosen, there, mine, line[w])
        for i in range(n):
            for b in range(plane_ptr[i + 1] - plane_ptr[i]):
                plane = planes[block, plane_ptr[i] + b, place : place + _LINE]
                for w in range(_LINE):
                    plane[w] = line[w, b, i]
