"""Codes: values and labels as positions in the list of values of their site, and functions of rows of codes."""

from __future__ import annotations

from typing import Any

import numpy as np

# Codes are uint8, and 255 stands for a missing entry.
MISSING = 255
MAX_VALUES = 254


class Codes:
    """What a space does with rows: codes ↔ values or labels, codes → columns φ. ``self`` is a Space."""

    def columns(self: Any, codes: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        """(rows, N) φ of every row.

        Parameters
        ----------
        codes : (rows, n) array
            Codes; values where a site is continuous.
        dtype : dtype
            Of the result.
        """
        if self.has_codes:
            shared = self.padded[0].astype(dtype)
            if self.is_scalar and (self.padded == self.padded[0]).all():
                return shared[codes]
            return self.padded.astype(dtype)[np.arange(self.n_columns), np.asarray(codes)[:, self.site].astype(np.intp)]
        out = np.empty((len(codes), self.n_columns), dtype=dtype)
        for c, i in enumerate(self.site):
            table = self.functions[i]
            x = codes[:, i]
            if i in self.anchors:
                out[:, c] = self.along_line(i, x)
            else:
                out[:, c] = x if table is None else table[x.astype(np.intp), c - self.column_ptr[i]]
        return out

    def along_line(self: Any, i: int, x: np.ndarray) -> np.ndarray:
        """φ of values of a line.

        Parameters
        ----------
        i : int
            Its site.
        x : (rows,) array
            Values.
        """
        (low, high), (start, end) = self.anchors[int(i)], np.ravel(self.functions[i])
        if (low, high) == (start, end):
            return np.asarray(x, dtype=np.float64)
        return start + (x - low) * ((end - start) / (high - low))

    def missing(self: Any, codes: np.ndarray) -> np.ndarray:
        """(rows, n) which codes are 255, and which values of continuous sites are NaN."""
        if self.has_codes:
            return codes == MISSING
        listed = np.array([a.is_finite for a in self.alphabets])
        return np.isnan(codes) | ((codes == MISSING) & listed)

    def only_codes(self: Any, codes: np.ndarray) -> np.ndarray:
        """(rows, n) uint8 codes where some sites have values in their place: 255 there, and for what is missing."""
        if codes.dtype == np.uint8:
            return codes
        out = np.full(codes.shape, MISSING, dtype=np.uint8)
        listed = np.flatnonzero([a.is_finite for a in self.alphabets])
        out[:, listed] = codes[:, listed]
        return out

    def encode(self: Any, X: Any) -> np.ndarray:
        """(rows, n) codes (uint8; float64 with values at continuous sites) of values or labels.

        ValueError for a value that its variable does not have; ``Samples.check`` says so with the names of a table.
        """
        # A list of rows with labels and numbers would become an array of strings.
        X = np.asarray(X, dtype=None if self.is_numeric or isinstance(X, np.ndarray) else object)
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise ValueError(f"X has shape {X.shape}; expected (n_samples, {self.n_features}).")
        if not self.is_finite and self.n_features and all(t is None for t in self.functions):
            return np.ascontiguousarray(X, dtype=np.float64)
        out = np.empty(X.shape, dtype=np.uint8 if self.has_codes else np.float64)
        for i, a in enumerate(self.alphabets):
            column = X[:, i]
            if not a.is_finite:
                out[:, i] = column
                continue
            found = np.full(len(column), MISSING)
            for code, value in enumerate(a.values.tolist()):
                found[column == value] = code
            if (found == MISSING).any():
                row = int(np.flatnonzero(found == MISSING)[0])
                value = column[row : row + 1].tolist()[0]
                raise ValueError(
                    f"variable {i} has the value {value!r} in row {row}, which is not in {a}: correct it, or give the "
                    "variable an alphabet that contains it."
                )
            out[:, i] = found
        return out

    def decode(self: Any, codes: np.ndarray) -> np.ndarray:
        """(rows, n) values of codes: numbers where all variables are numeric, else objects with the labels."""
        shared = self.alphabet
        if shared is not None and shared.values is not None:
            return shared.values[codes.astype(np.intp, copy=False)]
        if not self.is_finite and all(t is None for t in self.functions):
            return codes
        columns = [
            codes[:, i] if a.values is None else a.values[codes[:, i].astype(np.intp)]
            for i, a in enumerate(self.alphabets)
        ]
        if self.is_numeric:
            return np.stack(columns, axis=1)
        out = np.empty(codes.shape, dtype=object)
        for i, column in enumerate(columns):
            out[:, i] = column
        return out
