"""Writes the rows of a requests file anew with pandas, polars, DuckDB and pyarrow, as people do who filter them.

    python analyze/testdata/returned.py run.parquet DIR

Leaves DIR/pandas.parquet, polars.parquet, duckdb.parquet, pyarrow.parquet (dictionary pages and int32 throughout)
and pyarrow_meta.parquet (the metadata kept, columns in another order). Each has the rows of the main phase only.
Needs pandas, polars, duckdb and pyarrow. Small ones stand in testdata/returned; CI makes them anew.
"""

import os
import sys

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


def narrow(t):
    """The type with 32-bit integers."""
    return pa.int32() if t == pa.int64() else t


def main(source, folder):
    path = lambda name: os.path.join(folder, name + ".parquet")
    frame = pd.read_parquet(source)
    frame[frame.phase != "warmup"].to_parquet(path("pandas"))
    pl.read_parquet(source).filter(pl.col("phase") != "warmup").write_parquet(path("polars"))
    duckdb.execute(f"copy (select * from read_parquet('{source}') where phase <> 'warmup') to '{path('duckdb')}' (format parquet)")
    table = pq.read_table(source)
    table = table.filter(pc.not_equal(table["phase"], "warmup"))
    pq.write_table(table.select(list(reversed(table.column_names))), path("pyarrow_meta"))
    # int32 where the values allow it: counts, not moments.
    fields = []
    for f in table.schema:
        small = f.type == pa.int64() and (pc.max(table[f.name]).as_py() or 0) < 2**31 and (pc.min(table[f.name]).as_py() or 0) > -(2**31)
        fields.append(pa.field(f.name, pa.int32() if small else pa.list_(pa.int32()) if f.name == "chunk_tokens" else f.type))
    table = table.cast(pa.schema(fields)).replace_schema_metadata(None)
    pq.write_table(table, path("pyarrow"), use_dictionary=True, compression="snappy")


main(*sys.argv[1:])
