"""Files under faults: full disks, killed processes, damaged archives and those that claim absurd sizes."""

from __future__ import annotations

import ast
import bz2
import gzip
import io
import lzma
import os
import re
import resource
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyreadstat
import pytest
from numpy.lib import format as npy

import hbm_learn
from hbm_learn import BoltzmannMachine, datasets
from hbm_learn.cli import main
from hbm_learn.io import models, packed, tables
from hbm_learn.io.archives import Archive

MODEL = datasets.make_planted(8, {2: 6, 3: 2}, random_state=41)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.choice([0, 1], (80, 4)), columns=["a", "b", "c", "d"])
    frame.to_csv("data.csv", index=False)
    MODEL.save("model.npz")
    for name in ("table.csv", "report.html", "moments.npz", "scores.csv", "rows.csv"):
        (tmp_path / name).write_text("old")
    return tmp_path


COMMANDS = {
    "-o": ("fit data.csv --order 2 -o model.npz", "model.npz"),
    "--table": ("fit data.csv --order 2 --table table.csv", "table.csv"),
    "--report": ("fit data.csv --order 2 --report report.html", "report.html"),
    "infer -o": ("infer model.npz -o moments.npz", "moments.npz"),
    "sample -o": ("sample model.npz -n 200 -o rows.csv", "rows.csv"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_leaves_the_old_file(folder, capsys, name):
    """No file may grow beyond a few bytes here: what a full disk does to writes. One line says which file."""
    command, target = COMMANDS[name]
    before, files = (folder / target).read_bytes(), sorted(path.name for path in folder.iterdir())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        code = main(command.split())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    err = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert code == 2
    assert len(err) == 1
    assert target in err[0]
    assert "File too large" in err[0]
    assert (folder / target).read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == files
    assert main(command.split()) == 0, "the negative control: without the limit it is written"
    assert (folder / target).read_bytes() != before


KILL = """
import os, signal, sys
from hbm_learn.cli import main
import {module} as module

def killed(*args, **kwargs):
    for each in args:
        if hasattr(each, "write"):
            each.write(b"half of a mod")
            each.flush()
        elif hasattr(each, "write_text"):
            each.write_text("half of a fi")
    os.kill(os.getpid(), signal.SIGKILL)

{patch}
main(sys.argv[1:])
"""
PATCHES = {
    "-o": ("numpy", "module.savez_compressed = killed"),
    "--table": ("pandas", "module.DataFrame.to_csv = lambda frame, path, **_: killed(path)"),
    "--report": ("os", "module.replace = lambda a, b: killed()"),
}


@pytest.mark.parametrize("name", PATCHES)
def test_a_killed_process_leaves_the_old_file(folder, name):
    command, target = COMMANDS[name]
    before = (folder / target).read_bytes()
    module, patch = PATCHES[name]
    code = KILL.format(module=module, patch=patch)
    done = subprocess.run([sys.executable, "-c", code, *command.split()], capture_output=True, env={**os.environ})
    assert done.returncode == -9, done.stderr
    assert (folder / target).read_bytes() == before
    left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    assert len(left) == 1, "what was half written is there, under a hidden name"


def test_outputs_onto_inputs_are_refused_through_links_too(folder, capsys):
    before = (folder / "data.csv").read_bytes()
    (folder / "link.csv").symlink_to("data.csv")
    for output in ("data.csv", "./data.csv", str(folder / "data.csv"), "link.csv", f"../{folder.name}/data.csv"):
        assert main(["fit", "data.csv", "-o", output]) == 2
        assert "is read by this command" in capsys.readouterr().err
    assert (folder / "data.csv").read_bytes() == before


# ---------------------------------------------------------------------- archives


def members(path):
    """name → the bytes of each array of a saved model."""
    MODEL.save(path)
    with zipfile.ZipFile(path) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def pack(path, parts, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def array(values, shape=None, dtype=None):
    """The bytes of an .npy file, whose header may say something else than what follows."""
    values, file = np.asarray(values), io.BytesIO()
    header = npy.header_data_from_array_1_0(values)
    header |= {} if shape is None else {"shape": shape}
    header |= {} if dtype is None else {"descr": dtype}
    npy.write_array_header_1_0(file, header)
    return file.getvalue() + values.tobytes()


def test_members_are_what_was_saved(tmp_path):
    """The negative control of what follows: packed again, it is the model."""
    path = tmp_path / "model.npz"
    parts = members(path)
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        pack(path, parts, compression)
        assert BoltzmannMachine.load(path) == MODEL
    pack(path, {**parts, "note.npy": array([1.0]), "read me.txt": b"hello"})
    assert BoltzmannMachine.load(path) == MODEL, "what it does not know is left unread"


def test_every_cut_and_every_missing_member_is_refused(tmp_path):
    path = tmp_path / "model.npz"
    parts = members(path)
    whole = path.read_bytes()
    for size in np.linspace(0, len(whole) - 1, 60).astype(int):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="is damaged"):
            BoltzmannMachine.load(path)
    for name in parts:
        pack(path, {other: data for other, data in parts.items() if other != name})
        with pytest.raises(ValueError, match=r"is damaged.*"):
            BoltzmannMachine.load(path)


def test_flipped_bytes_are_refused_or_make_no_difference(tmp_path):
    """One byte at a time, at random places: a checksum that fails, or what no reader looks at."""
    path, rng = tmp_path / "model.npz", np.random.default_rng(6)
    MODEL.save(path)
    whole, refused = path.read_bytes(), []
    for place in rng.choice(len(whole), 150, replace=False):
        damaged = bytearray(whole)
        damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(damaged))
        try:
            assert BoltzmannMachine.load(path) == MODEL
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) > 50
    assert all("damaged" in message or "format version" in message for message in refused)


ABSURD = {
    "a shape that is not there": ("weights.npy", array(np.zeros(4), shape=(10**13,))),
    "a shape of more than 64 bits": ("weights.npy", array(np.zeros(4), shape=(2**62, 2**62))),
    "a negative shape": ("weights.npy", array(np.zeros(4), shape=(-4,))),
    "a shape of bools": ("weights.npy", array(np.zeros(4), shape=(True,))),
    "a shape of text": ("weights.npy", array(np.zeros(4), shape=("4",))),
    "objects": ("value.npy", array(np.zeros(4), dtype="|O")),
    "fields": ("h.npy", array(np.zeros(4), dtype=[("a", "<f8")])),
    "labels of a gigabyte each": ("value.npy", array(np.zeros(4), shape=(1,), dtype="<U1000000000")),
    "no array": ("h.npy", b"hello"),
    "nothing": ("h.npy", b""),
    "an unknown version": ("h.npy", b"\x93NUMPY\x09\x00" + b"x" * 100),
    "a header that is code": ("h.npy", b"\x93NUMPY\x01\x00\x28\x00" + b"__import__('os').system('touch /tmp/x')   \n"),
    "times": ("h.npy", array(np.zeros(8), dtype="<M8[s]")),
    "complex numbers": ("h.npy", array(np.zeros(16), shape=(8,), dtype="<c16")),
    "numbers that are not finite": ("h.npy", array(np.full(8, np.nan))),
    "two dimensions": ("h.npy", array(np.zeros((8, 1)))),
    "other members": ("members.npy", array(np.full(18, 99))),
    "pointers beyond": ("indptr.npy", array(np.array([0, 2**40]))),
    "a later version": ("version.npy", array(np.array(99))),
    "a version of text": ("version.npy", array(np.array("two"))),
    "another format": ("format.npy", array(np.array("something else"))),
    "an infinite value": ("value.npy", array(np.array(["-1", "inf"]))),
    "a value that is no number": ("value.npy", array(np.array(["-1", "one"]))),
    "an unknown type of value": ("value_type.npy", array(np.array(["int", "code"]))),
    "an unknown kind": ("kind.npy", array(np.array(["p-adic"]))),
    "an unknown type of numbers": ("dtype.npy", array(np.array(["<q99"]))),
    "a type of objects": ("dtype.npy", array(np.array(["O"]))),
    "too many functions": ("n_functions.npy", array(np.full(8, 10**15))),
}


@pytest.mark.parametrize("kind", ABSURD)
def test_absurd_members_are_refused_before_memory_is_taken(kind, tmp_path):
    path = tmp_path / "model.npz"
    name, data = ABSURD[kind]
    parts = members(path)
    assert name in parts
    pack(path, {**parts, name: data})
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"damaged|format version 99"):
            BoltzmannMachine.load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_a_bomb_is_refused_by_what_it_says_and_by_what_it_is(tmp_path, monkeypatch):
    """64 MiB of zeros in 64 KiB: beyond the limit it is not unpacked."""
    path = tmp_path / "model.npz"
    parts = members(path)
    bomb = array(np.zeros(2**23))
    pack(path, {**parts, "weights.npy": bomb})
    assert path.stat().st_size < 2**18
    monkeypatch.setattr(models, "MAX_NUMBERS", 2**20)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"damaged.*weights would take"):
            BoltzmannMachine.load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()
    with Archive(path, 2**20) as archive, pytest.raises(ValueError, match="limit"):
        archive["weights"]


def test_tables_in_archives_are_looked_at_too(tmp_path, capsys):
    path = tmp_path / "table.npz"
    np.savez(path, X=np.eye(4))
    np.testing.assert_array_equal(tables.read(path), np.eye(4))
    pack(path, {"X.npy": array(np.zeros(4), shape=(10**9, 10**6))})
    with pytest.raises(ValueError, match=r"table\.npz: X says that it has shape"):
        tables.read(path)
    np.savez(path, X=np.array([[print]], dtype=object))
    with pytest.raises(ValueError, match="X holds Python objects"):
        tables.read(path)
    assert main(["info", str(path)]) == 2
    assert "Python objects" in capsys.readouterr().err


def bomb(path):
    """A table of 16 MiB or more in a small file."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = b"a,b\n" + b"1,0\n" * 2**22
    match path.suffix:
        case ".gz":
            path.write_bytes(gzip.compress(rows))
        case ".bz2":
            path.write_bytes(bz2.compress(rows))
        case ".xz":
            path.write_bytes(lzma.compress(rows))
        case ".parquet":
            parquet.write_table(pa.table({"a": np.zeros(2**21, dtype=np.int8)}), path)
        case ".xlsx":
            pd.DataFrame({"a": [1]}).to_excel(path, index=False)
            with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("xl/worksheets/sheet2.xml", bytes(2**24))
        case _:
            pyreadstat.write_sav(pd.DataFrame({"a": np.zeros(2**21)}), path, compress=True)
    return path


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.bz2", "t.csv.xz", "t.parquet", "t.xlsx", "t.zsav"])
def test_a_bomb_that_is_a_table_is_refused_before_it_is_read(name, tmp_path, monkeypatch, capsys):
    """Here the limit is 8 MiB; under that of the machine, it is the table that it is."""
    path = bomb(tmp_path / name)
    assert path.stat().st_size < 2**19
    if name == "t.parquet":
        assert len(tables.read(path)) == 2**21
    monkeypatch.setattr(packed, "limit", lambda: 2**23)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=rf"{re.escape(name)}: unpacked, .* limit is 0\.01 GiB .*partial_fit"):
            tables.read(path)
        assert tracemalloc.get_traced_memory()[1] < 2**24  # LZMA's own window is 8 MiB
    finally:
        tracemalloc.stop()
    assert main(["info", str(path)]) == 2
    assert "unpacked" in capsys.readouterr().err


def test_small_compressed_tables_are_no_bombs(tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "limit", lambda: 2**16)
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    for name in ("t.csv.gz", "t.csv.bz2", "t.csv.xz"):
        frame.to_csv(tmp_path / name, index=False)
        pd.testing.assert_frame_equal(tables.read(tmp_path / name), frame)


def test_the_limit_is_a_quarter_of_the_memory(monkeypatch):
    monkeypatch.setattr(packed, "memory", lambda: 2**34)
    assert packed.limit() == 2**32
    monkeypatch.setattr(packed, "memory", lambda: 2**20)
    assert packed.limit() == 2**28


def test_other_things_than_files_are_refused():
    for nothing in (None, 12345, 1.5, ["model.npz"], b"\x00"):
        with pytest.raises(ValueError, match="not a model"):
            BoltzmannMachine.load(nothing)


# ---------------------------------------------------------------------- no network, nothing executed

NETWORK = {"socket", "ssl", "http", "urllib", "requests", "ftplib", "smtplib", "asyncio", "xmlrpc", "webbrowser"}
EXECUTION = {"pickle", "marshal", "shelve", "subprocess", "ctypes", "cloudpickle", "dill"}


def test_the_package_imports_neither_network_nor_what_executes_data():
    found, package = set(), Path(hbm_learn.__file__).parent
    pickled = {"_kernels/caches.py"}  # numba's compiled code, from the package's own folders or the user's cache
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names = {name.split(".")[0] for name in names}
            found |= names - {"pickle"} if path.relative_to(package).as_posix() in pickled else names
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "compile", "__import__"), path
    assert "numpy" in found, "the look finds imports"
    assert not found & (NETWORK | EXECUTION)


def test_the_report_allows_nothing_but_itself(folder):
    assert main(["fit", "data.csv", "--order", "2", "--report", "report.html"]) == 0
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in text.split("</head>")[0]
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", text)
