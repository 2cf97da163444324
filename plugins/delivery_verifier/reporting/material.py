"""The material of a page: the contents of the files in a run directory. Any of these files may be missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from delivery_verifier.model.history import Injection, Observation, read_injections, read_observations
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets, read_offsets
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.run_directory import tables
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory
from delivery_verifier.run_directory.table import Table
from delivery_verifier.run_directory.times import as_us

if TYPE_CHECKING:  # pandas takes long to import, and most callers do not need pandas
    import pandas as pd

COLUMNS: dict[str, tuple[str, ...]] = {
    table.name: table.column_names
    for table in (
        tables.LOAD,
        tables.LATENCY,
        tables.INVARIANTS,
        tables.CASES,
        tables.GAPS,
        tables.ANOMALIES,
        tables.REPLICAS,
    )
}
"""The columns that the pages read, by the name of the table. The Parquet file of a table may have more columns."""

_T = TypeVar("_T")
_UNREADABLE = (OSError, ValueError, KeyError, IncompleteRun, pa.ArrowException)


@dataclass(frozen=True)
class Missing:
    """A part of the run that a page cannot show.

    `name`: the name of the part, which is usually a file name. `why`: the reason in words.
    """

    name: str
    why: str


@dataclass
class Material:
    """The parts of a run that could be read.

    `missing`: the parts that could not be read. A page lists these parts. `path`: the run directory. `verdict`: the
    verdict, or None if the run was not judged. `tables`: the tables by their names in COLUMNS, such as `timeline/load`.
    Times in the tables are integers in µs since the epoch.
    """

    path: Path
    verdict: RunVerdict | None
    scenario: Scenario | None = None
    injections: list[Injection] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    offsets: Offsets | None = None
    tables: dict[str, pa.Table] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)

    @property
    def is_timed(self) -> bool:
        """Whether the times of attempts are known: in an audit, only if the ledger has them."""
        audit = self.scenario.audit if self.scenario else None
        return audit is None or audit.timed

    def table(self, declared: Table) -> pa.Table | None:
        """Returns the contents of the table `declared` in this run. Returns None if the table could not be read.

        Raises KeyError if the table is not in COLUMNS, because `read` reads only the tables in COLUMNS.
        """
        if declared.name not in COLUMNS:
            raise KeyError(f"pages do not read {declared.name}: add it to COLUMNS of reporting/material.py")
        return self.tables.get(declared.name)

    def frame(self, name: str) -> pd.DataFrame | None:
        """Returns the table `name` of the run as a pandas data frame. `name` is a key of COLUMNS.

        Returns None if the table could not be read.
        """
        table = self.tables.get(name)
        return None if table is None else table.to_pandas()

    def take(self, name: str, read: Callable[[], _T]) -> _T | None:
        """Returns the result of `read`, which reads the part `name` of the run.

        If the part is missing or unreadable, returns None, and adds `name` and the reason to `missing`.
        """
        try:
            return read()
        except _UNREADABLE as error:
            self.missing.append(Missing(name, _reason(error)))
            return None


def read(path: Path, verdict: RunVerdict | None) -> Material:
    """Reads the run directory `path`, and returns its material. `verdict` is None if the run was not judged.

    If a part is missing or malformed, no error is raised. The field `missing` of the result lists such parts.
    """
    material = Material(Path(path), verdict)
    material.scenario = material.take("scenario.json", lambda: RunDirectory(path).read_scenario())
    material.injections = _json(material, "injections.json", read_injections) or []
    material.observations = _json(material, "observations.json", read_observations) or []
    material.offsets = _json(material, "offsets.json", read_offsets)
    for name in COLUMNS:
        table = material.take(_file(name), lambda name=name: _table(Path(path) / _file(name), name))  # type: ignore[misc]
        if table is not None:
            material.tables[name] = table
    _empty_if_counted_empty(material)
    _check_identity(material)
    return material


def _empty_if_counted_empty(material: Material) -> None:
    """Adds an empty table of anomalies if the folder anomalies/ has no file and the tables of counts have no case.

    If the counts are missing, the number of cases is not known, and anomalies/ stays in `missing`.
    """
    counted = material.tables.get("counts/cases")
    if "anomalies" in material.tables or counted is None or sum(counted.column("cases").to_pylist()):
        return
    if not any((material.path / "anomalies").glob("*.parquet")):
        material.tables["anomalies"] = pa.table({name: pa.array([], pa.null()) for name in COLUMNS["anomalies"]})
        material.missing = [part for part in material.missing if part.name != "anomalies"]


def _check_identity(material: Material) -> None:
    """Adds a part to `missing` if there is no verdict, or if the verdict and the scenario are of different runs."""
    if material.verdict is None:
        material.missing.append(Missing("verdict.json", "the run was not judged"))
    elif material.scenario is not None and material.verdict.run_id != material.scenario.run_id:
        material.missing.append(
            Missing(
                "one identity",
                f"the verdict is of {material.verdict.run_id}, the directory of {material.scenario.run_id}",
            )
        )


def _file(name: str) -> str:
    return name if name == "anomalies" else f"{name}.parquet"


def _json(material: Material, name: str, parse: Callable[[bytes], _T]) -> _T | None:
    return material.take(name, lambda: parse((material.path / name).read_bytes()))


def _table(path: Path, name: str) -> pa.Table:
    """Returns the table `name`, with the columns that COLUMNS lists for this name. Times are in µs since the epoch.

    `path`: a Parquet file, or a folder of Parquet files. Raises FileNotFoundError if a folder holds no Parquet file,
    and ValueError if columns are missing.
    """
    if path.is_dir() and not any(path.rglob("*.parquet")):
        raise FileNotFoundError(f"{path.name} holds no Parquet file")
    source = ds.dataset(path, format="parquet") if path.is_dir() else pq.ParquetFile(path)
    names = source.schema.names if path.is_dir() else source.schema_arrow.names
    if missing := [column for column in COLUMNS[name] if column not in names]:
        raise ValueError(f"columns are missing: {', '.join(missing)}")
    columns = list(COLUMNS[name])
    table = source.to_table(columns) if path.is_dir() else source.read(columns)
    return pa.table({column: as_us(table[column]) for column in columns})


def _reason(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError):
        return "not there: the step that writes it did not finish"
    return f"cannot be read: {error}"


ARMS_DRAWN = 8
"""The greatest number of arms in the plots."""


def arms_drawn(material: Material) -> list[str]:
    """Returns the names of the arms in the plots: the first ARMS_DRAWN names of `arms_loaded`.

    The position of an arm in this list decides the arm's colour.
    """
    return arms_loaded(material)[:ARMS_DRAWN]


def arms_loaded(material: Material) -> list[str]:
    """Returns the names of all arms with rows in timeline/load: subjects first, then controls, then all other arms by
    name.

    Subjects and controls keep the order of the scenario. Returns an empty list if timeline/load is missing.
    """
    table = material.tables.get("timeline/load")
    loaded = sorted(set(table.column("arm").to_pylist())) if table is not None else []
    planned = material.scenario.arms if material.scenario is not None else ()
    in_scenario = [arm.name for role in ("subject", "control") for arm in planned if arm.role == role]
    ranked = [arm for arm in in_scenario if arm in loaded] + [arm for arm in loaded if arm not in in_scenario]
    return ranked
