"""The files of evaluations, recommendations and shadows, as they are in the store."""

from __future__ import annotations

from constructs_optim.runtime.store.json_records import Record, StoredRecord
from constructs_optim.runtime.store.run_records import RunRecords


def content(records: RunRecords, file: str, run: str = "") -> Record | None:
    """A file's content; None if the file does not exist."""
    found = records.get(file, StoredRecord, run)
    return found.to_record() if found is not None else None
