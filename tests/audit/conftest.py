"""One Spark for all tests of the audit: to start it costs more than most of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    pytest.importorskip("pyspark")
    from kohort.audit.spark.session import start_session, stop_session

    session = start_session(cores=2)
    yield session
    stop_session(session)
