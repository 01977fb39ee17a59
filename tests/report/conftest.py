"""What the tests of the report share."""

import pytest

from divulge import report
from divulge.contract import Record

from .example import full_record


@pytest.fixture(scope="session")
def record() -> Record:
    return full_record()


@pytest.fixture(scope="session")
def html(record: Record) -> str:
    return report.render(record)
