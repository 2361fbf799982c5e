"""Executes the notebooks beside this file and compares the figures at their ends.

usage: run.py [OUTPUT_DIR]

The files to read are named as in the notebooks: PARLEY_RUN, PARLEY_OTHER and PARLEY_SWEEP, or, if unset, what
make demo and sweep.sh make. Executed copies go to OUTPUT_DIR, if given; the notebooks themselves are committed
without outputs, and this checks that too. Needs the packages of .ci/requirements.txt.
"""
import glob
import json
import math
import os
import pathlib
import sys

import nbformat
from nbclient import NotebookClient

here = pathlib.Path(__file__).resolve().parent
NAMES = ("pandas", "polars", "duckdb")


def execute(name, output):
    notebook = nbformat.read(here / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code" and (cell.outputs or cell.execution_count is not None):
            sys.exit(f"{name}.ipynb: committed with outputs: clear them (jupyter nbconvert --clear-output --inplace)")
    client = NotebookClient(
        notebook,
        timeout=300,
        startup_timeout=180,
        kernel_name="python3",
        resources={"metadata": {"path": str(here)}},
    )
    client.execute()
    if output:
        output.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, output / f"{name}.ipynb")
    text = "".join(o.text for o in notebook.cells[-1].outputs if o.output_type == "stream")
    return json.loads(text)


def same(a, b):
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9)


def check_files():
    for variable, default in (("PARLEY_RUN", "run.parquet"), ("PARLEY_OTHER", "nocache.parquet"), ("PARLEY_SWEEP", "sweep/*.parquet")):
        pattern = os.environ.get(variable, f"../../demo/{default}")
        if not glob.glob(str(here / pattern)):
            sys.exit(f"notebooks: no file {pattern}: run make demo and analyze/notebooks/sweep.sh first, or set {variable}")


def main():
    check_files()
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None
    figures = {name: execute(name, output) for name in NAMES}
    first = figures[NAMES[0]]
    if not first["turns"] or not all(v > 0 for v in first["ttft_p50"]):
        sys.exit(f"no TTFT by turn: {first}")
    for name in NAMES[1:]:
        for key, value in first.items():
            if not same(value, figures[name][key]):
                sys.exit(f"{key}: {NAMES[0]} says {value}, {name} says {figures[name][key]}")
    print(f"notebooks: {', '.join(NAMES)} agree: {json.dumps(first)}")


main()
