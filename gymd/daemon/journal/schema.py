"""The journal's tables and statements.

A row's key is its session's number and its own number within the session in one integer, so that a session's
rows lie together and are found and deleted by ranges of one B-tree:

- tasks: number of the task. A task is kept until its group is complete and every result is stored by the
  client.
- results: number of the result (its `sequence`). When the client has stored it, the payload goes; the row
  stays with its task, so that a restart knows which rollouts of a task are done.
- stops: number of the task, and index. A rollout that was told to stop and has not ended: after a restart it
  does not run again. The row goes when its result comes.

One table has a key of two, because its number is the client's and may be any:

- cancels: number of the session, and of the cancel. What was answered to the last ones: one that is sent
  again is answered so, and stops nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path

from gymd.daemon.journal.records import StoredCancel, StoredResult, StoredSession, StoredStop, StoredTask

__all__ = [
    "ADD_CANCEL",
    "ADD_RESULT",
    "ADD_SESSION",
    "ADD_STOP",
    "ADD_TASK",
    "CLEAR_RESULTS",
    "DELETE_CANCELS",
    "DELETE_RESULT",
    "DELETE_RESULTS",
    "DELETE_SESSION",
    "DELETE_STOP",
    "DELETE_STOPS",
    "DELETE_TASK",
    "DELETE_TASKS",
    "NUMBER_MASK",
    "READ_RESULTS",
    "READ_TASK",
    "UPDATE_SESSION",
    "connect",
    "load",
    "row_id",
]

VERSION = 4
READABLE = (2, 3, 4)
"""Older versions that are taken over: 2 had no stops, and neither 2 nor 3 had cancels."""
NUMBER_BITS = 40
NUMBER_MASK = (1 << NUMBER_BITS) - 1

_TABLES = """
CREATE TABLE IF NOT EXISTS sessions (
    number INTEGER PRIMARY KEY, session_id TEXT NOT NULL, opening BLOB NOT NULL, open_unix_s REAL NOT NULL,
    state TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS tasks (
    id INTEGER PRIMARY KEY, submission BLOB NOT NULL, accepted_unix_s REAL NOT NULL, grp INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS results (
    id INTEGER PRIMARY KEY, task INTEGER NOT NULL, idx INTEGER NOT NULL, outcome INTEGER NOT NULL, reward
    REAL, attempt INTEGER NOT NULL, payload BLOB);
CREATE TABLE IF NOT EXISTS stops (
    id INTEGER NOT NULL, idx INTEGER NOT NULL, mode INTEGER NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY (id, idx)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cancels (
    session INTEGER NOT NULL, number INTEGER NOT NULL, answer BLOB NOT NULL,
    PRIMARY KEY (session, number)) WITHOUT ROWID;
"""

ADD_SESSION = "INSERT INTO sessions VALUES (?, ?, ?, ?, ?)"
UPDATE_SESSION = "UPDATE sessions SET state = ? WHERE number = ?"
DELETE_SESSION = "DELETE FROM sessions WHERE number = ?"
ADD_TASK = "INSERT INTO tasks VALUES (?, ?, ?, ?)"
DELETE_TASK = "DELETE FROM tasks WHERE id = ?"
DELETE_TASKS = "DELETE FROM tasks WHERE id >= ? AND id < ?"
ADD_RESULT = "INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, ?)"
CLEAR_RESULTS = "UPDATE results SET payload = NULL WHERE id > ? AND id <= ?"
DELETE_RESULT = "DELETE FROM results WHERE id = ?"
DELETE_RESULTS = "DELETE FROM results WHERE id >= ? AND id < ?"
ADD_STOP = "INSERT OR REPLACE INTO stops VALUES (?, ?, ?, ?)"
DELETE_STOP = "DELETE FROM stops WHERE id = ? AND idx = ?"
DELETE_STOPS = "DELETE FROM stops WHERE id >= ? AND id < ?"
ADD_CANCEL = "INSERT INTO cancels VALUES (?, ?, ?)"
DELETE_CANCELS = "DELETE FROM cancels WHERE session = ? AND number <= ?"
READ_RESULTS = (
    "SELECT id, payload FROM results WHERE id >= ? AND id < ? AND payload IS NOT NULL ORDER BY id LIMIT ?"
)

READ_TASK = "SELECT submission FROM tasks WHERE id = ?"


def row_id(session_number: int, number: int) -> int:
    """The key of a session's row."""
    return session_number << NUMBER_BITS | number


def connect(path: Path) -> sqlite3.Connection:
    """Opens the database and makes its tables; raises sqlite3.Error."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10.0)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found and found not in READABLE:
        connection.close()
        raise sqlite3.DatabaseError(f"it is of version {found}, and this gymd writes version {VERSION}")
    connection.executescript(_TABLES)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    return connection


def load(connection: sqlite3.Connection) -> list[StoredSession]:
    """Every session with its tasks and results; payloads stay in the file."""
    sessions = {}
    for number, session_id, opening, opened, state in connection.execute(
        "SELECT number, session_id, opening, open_unix_s, state FROM sessions ORDER BY number"
    ):
        facts = json.loads(state)
        outcomes = Counter({int(outcome): count for outcome, count in facts.pop("outcomes", {}).items()})
        sessions[number] = StoredSession(number, session_id, opening, opened, outcomes=outcomes, **facts)
    for key, *facts in connection.execute("SELECT * FROM tasks ORDER BY id"):
        session = sessions[key >> NUMBER_BITS]
        session.tasks.append(StoredTask(key & NUMBER_MASK, *facts))
    for key, *facts in connection.execute(
        "SELECT id, task, idx, outcome, reward, attempt, coalesce(length(payload), 0) FROM results "
        "ORDER BY id"
    ):
        sessions[key >> NUMBER_BITS].results.append(StoredResult(key & NUMBER_MASK, *facts))
    for key, *facts in connection.execute("SELECT * FROM stops"):
        sessions[key >> NUMBER_BITS].stops.append(StoredStop(key & NUMBER_MASK, *facts))
    for session_number, *facts in connection.execute("SELECT * FROM cancels ORDER BY session, number"):
        sessions[session_number].cancels.append(StoredCancel(*facts))
    return list(sessions.values())
