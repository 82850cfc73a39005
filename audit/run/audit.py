"""An audit, from the paths to the report: find the logs, read what is new, derive the tables, check them, report.

The base tables go to a store: the folder given as --out, which remembers what earlier audits have read, or a temporary
one. All other tables are derived again from all base tables. The store always gets all records of the logs; --group,
--since and --until only narrow what is checked and reported.
"""

from __future__ import annotations

import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit import report
from kohort.audit.checks import parse_settings
from kohort.audit.checks.kit import baseline
from kohort.audit.decode import files
from kohort.audit.decode.find import find_folders
from kohort.audit.decode.folders import LogFolder
from kohort.audit.decode.partition_count import guess_partition_count
from kohort.audit.decode.schemas import schema
from kohort.audit.moments import in_words
from kohort.audit.report.stored import report_source
from kohort.audit.result import AuditError, Request, Result
from kohort.audit.run.one_pass import one_pass
from kohort.audit.run.progress import Progress
from kohort.audit.store.check import check_run
from kohort.audit.store.files import StoreFiles
from kohort.audit.store.runs import Run, Store
from kohort.audit.store.tasks import Ingested
from kohort.audit.tables import AUDIT_RUNS, CHECK_RESULTS, FINDINGS, GROUP_GENERATIONS, OTHER_RECORDS, PARTITION_FACTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[dict[str, Any]]
ABOUT_GROUPS = (
    PARTITION_FACTS.name,
    GROUP_GENERATIONS.name,
    OTHER_RECORDS.name,
)  # every group has a row in one of them
Judged = tuple[pa.Table, pa.Table]  # findings and check_results


class Input(NamedTuple):
    """What there is to audit."""

    folders: list[LogFolder]
    problems: list[str]
    before: baseline.Answers | None  # what the cluster of --baseline said before the logs were looked at

    @property
    def size_bytes(self) -> int:
        return sum(folder.size_bytes for folder in self.folders)


def find_input(request: Request) -> Input:
    """Find the logs, and find out what is wrong with the request before Spark is started. AuditError."""
    with _errors_in_words(request.out):
        parse_settings(request.settings)
        if request.report or not request.out:  # the folder of --out is made if need be
            _check_report(request.report_path())
        before = None
        if request.baseline and request.until is None:  # a broker knows only the present state
            before = _ask(request, request.baseline)
        group = request.group if request.out is None else None
        folders, problems = find_folders(request.paths, group, request.command_config)
        return Input(folders, problems, before)


def run_audit(spark: SparkSession | None, request: Request, progress: Progress, found: Input | None = None) -> Result:
    """Do the whole audit. AuditError if that is not possible. Without `spark` all of it is done in this process."""
    found = found or find_input(request)
    with _errors_in_words(request.out), _store(spark, request.out) as store:
        return _run(spark, request, found, store, progress)


@contextmanager
def _errors_in_words(out: str | None) -> Iterator[None]:
    try:
        yield
    except (baseline.BaselineError, ValueError) as problem:
        raise AuditError(str(problem)) from problem
    except OSError as problem:
        raise AuditError(_in_words(problem, out)) from problem
    except AuditError:
        raise
    except Exception as problem:
        if (words := _words_of_spark(problem)) is None:
            raise
        raise AuditError(words) from problem


def _words_of_spark(problem: Exception) -> str | None:
    """None: the problem is not Spark's."""
    if "pyspark" not in sys.modules:
        return None
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if isinstance(problem, PySparkException):
        return _last_words(str(problem))
    return _last_words(problem.java_exception.toString()) if isinstance(problem, Py4JJavaError) else None


def _ask(request: Request, bootstrap: str) -> baseline.Answers:
    return baseline.ask(bootstrap, group=request.group, command_config=request.command_config)


def _in_words(problem: OSError, out: str | None) -> str:
    """A message for users. Errors of pyarrow do not name the file, but they are always about the tables in `out`."""
    where, words = problem.filename or out, problem.strerror or str(problem)
    return files.shown(f"{where}: {words}" if where and str(where) not in words else words)


def _last_words(text: str) -> str:
    """A message for a failure inside Spark: the last line of Python's traceback, or else the first of Spark's text."""
    lines = [line for line in text.splitlines() if line.strip()] or ["Spark failed"]
    words = [line for line in lines if line[:1].isalpha() and ": " in line]
    return words[-1] if words and "Traceback" in text else lines[0]


@contextmanager
def _store(spark: SparkSession | None, out: str | None) -> Iterator[Store]:
    if out is not None:
        yield Store(out)
        return
    if spark is not None and not (spark.sparkContext.master or "").startswith("local"):
        raise AuditError("a cluster needs --out: a folder, or an address, that all of its machines see")
    with tempfile.TemporaryDirectory(prefix="kohort-audit-") as folder:
        yield Store(folder)


def _run(spark: SparkSession | None, request: Request, found: Input, store: Store, progress: Progress) -> Result:
    started = datetime.now(UTC)
    run = store.begin(f"{started:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:6]}")
    try:
        return _Audit(spark, request, found, store.files, progress, run, started).run()
    finally:
        run.release()


class _Audit:
    """One audit, step by step."""

    def __init__(
        self, spark: SparkSession | None, request: Request, found: Input, stored: StoreFiles, progress: Progress,
        run: Run, started: datetime,
    ) -> None:  # fmt: skip
        self._spark, self._request, self._found, self._files = spark, request, found, stored
        self._settings = parse_settings(request.settings)
        self._progress, self._run, self._started = progress, run, started
        self._runs = run.runs  # the runs whose tables are checked and reported

    def run(self) -> Result:
        request = self._request
        _check_report(request.report_path())
        folders, before, problems = self._found.folders, self._found.before, list(self._found.problems)
        self._progress.step(f"reading {len(folders)} log folders, {self._found.size_bytes / 1e6:,.0f} MB")
        read, judged = self._read(folders, may_judge=before is None)
        problems += [files.shown(f"{one.path}: {one.problem}") for one in read if one.problem]
        earlier = self._files.read_runs()
        this_run = _run_rows(self._run.run_id, self._started, _later_than(earlier), folders, read)
        about_runs = pa.concat_tables([earlier, this_run])
        findings, results = judged or self._judge(about_runs, before)
        self._progress.step("writing the report")
        for name, rows in ((FINDINGS.name, findings), (CHECK_RESULTS.name, results)):
            self._files.write(rows, name, self._run.run_id, "all")
        told = {FINDINGS.name: findings, CHECK_RESULTS.name: results, AUDIT_RUNS.name: about_runs}
        source = report_source(self._files, self._runs, told, request)
        if request.group is not None and not any(len(source.table(name, ["group_id"])) for name in ABOUT_GROUPS):
            problems.append(f"group {request.group}: nothing about it in these logs")
        result = Result(
            self._run.run_id, findings.to_pylist(), results.to_pylist(), len(folders),
            sum(one.records for one in read), problems, request.report_path(),
        )  # fmt: skip
        report.write(source, result.report, _about(request, result, self._started))
        self._run.finish(this_run.to_pylist())
        return result

    def _read(self, folders: Sequence[LogFolder], *, may_judge: bool) -> tuple[list[Ingested], Judged | None]:
        """Read the base tables. If one pass is possible, derive and check in the same pass."""
        if len(self._runs) > 1 or self._request.until is not None or not may_judge:
            return self._run.ingest(self._spark, folders), None
        ingested, judged = one_pass(
            self._spark, self._files, self._run.run_id, folders, self._settings, group=self._request.group,
            since=self._request.since, log_partition_count=guess_partition_count(folders),
        )  # fmt: skip
        return ingested, judged and _arrow(judged)

    def _judge(self, about_runs: pa.Table, before: baseline.Answers | None) -> Judged:
        spark, request = self._spark, self._request
        self._progress.step("working out who owned what")
        self._run.work_out(spark)
        answers = None
        if request.until is not None:
            self._runs = [self._run.cut(spark, request.until)]
        elif before is not None and request.baseline:
            answers = baseline.agreed(before, _ask(request, request.baseline))
        self._progress.step("checking")
        judged = check_run(
            spark, self._files, self._runs, about_runs, settings=self._settings, baseline=answers, group=request.group,
            since=request.since,
        )  # fmt: skip
        return _arrow(judged)


def _arrow(judged: tuple[Rows, Rows]) -> Judged:
    findings, results = judged
    return (
        pa.Table.from_pylist(findings, schema=schema(FINDINGS.name)),
        pa.Table.from_pylist(results, schema=schema(CHECK_RESULTS.name)),
    )


def _check_report(path: str) -> None:
    """Check that the folder of the report exists now, and not after an hour of work."""
    if not Path(path).absolute().parent.is_dir():
        raise AuditError(f"{path}: No such file or directory")


def _later_than(runs: pa.Table) -> datetime:
    """Now, but always later than the runs before, even if a clock is slow: runs are ordered by this time."""
    latest = pc.max(runs["finished"]).as_py()
    now = datetime.now(UTC)
    return now if latest is None or now > latest else latest + timedelta(microseconds=1)


def _run_rows(
    run_id: str, started: datetime, finished: datetime, folders: Sequence[LogFolder], read: Sequence[Ingested]
) -> pa.Table:
    """Rows of the table audit_runs."""
    by_number = {folder.log_partition: folder for folder in folders}
    rows = [
        {
            "run_id": run_id,
            "started": started,
            "finished": finished,
            "path": files.shown(one.path),
            "log_partition": one.log_partition,
            "first_log_offset": by_number[one.log_partition].first_offset,
            "from_log_offset": one.from_log_offset,
            "end_log_offset": one.end_log_offset,
            "cleaned_to": by_number[one.log_partition].cleaned_to,
            "records": one.records,
            "problem": one.problem and files.shown(one.problem),
        }
        for one in read
    ]
    return pa.Table.from_pylist(rows, schema=schema(AUDIT_RUNS.name))


def _about(request: Request, result: Result, started: datetime) -> Mapping[str, Any]:
    """What the report says about this run."""
    return {
        "run": f"{result.run_id}, {in_words(started)}",
        "log folders": [files.shown(path) for path in request.paths],
        "new records": f"{result.records:,}",
        "only group": request.group,
        "since": request.since and in_words(request.since),
        "until": request.until and in_words(request.until),
        "compared with": request.baseline if request.until is None else None,
        "thresholds": list(request.settings) or None,
        "could not be read": result.problems or None,
        "tables": request.out and files.shown(request.out),
        "kohort": version("kohort"),
    }
