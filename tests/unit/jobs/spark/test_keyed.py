"""A keyed stage without pandas, and in PySpark's own way as with another release: Spark gets the same."""

import importlib.metadata
import json
import pickle
import tomllib

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.spark import keyed
from jobs.spark.keyed import KeyedStage
from quota.errors import MutationQuotaError
from tests.support.checkout import CHECKOUT
from tests.support.releases import another_release
from tests.unit.jobs.spark.keyed_worker import OUTPUT, record_batches, run

COLUMNS = to_arrow_schema(OUTPUT)
KEYS = st.lists(
    st.tuples(
        st.lists(st.binary(max_size=5) | st.just(b"silent"), min_size=1, max_size=8),
        st.none() | st.tuples(st.integers(0, 2**40), st.none() | st.binary(max_size=5)),
    ),
    min_size=1,
    max_size=12,
)


def counting(key, rows, state):
    """Answer each row by its number; count only those that begin with an even byte."""
    count, last = state.get if state.exists else (0, None)
    before = count
    for row in rows:
        if row and not row[0] % 2:
            count, last = count + 1, row
        if row != b"silent":
            yield key, None if len(row) % 2 else row, f"{count} ".encode() + row
    if count != before:
        state.update((count, last))


def large(_key, rows, _state):
    """Return for each row as many bytes as it requests."""
    for row in rows:
        yield "topic", None, b"x" * int(row)


def stumbling_function(_key, rows, _state):
    """Stumble at once."""
    return [next(iter(rows)), next(iter(()))]


def stock_stage(answer, max_rows):
    with another_release():
        return KeyedStage(answer, COLUMNS, max_rows)


def both(answer, batches, max_rows):
    return [run(stage, batches) for stage in (stock_stage(answer, max_rows), KeyedStage(answer, COLUMNS, max_rows))]


def answers(output):
    return [answer for _, _, answered, _ in output for answer in answered]


def states(output):
    return [_unpickled(state) for _, _, _, stored in output for state in stored]


def is_updated(state):
    return json.loads(state["properties"])["updated"]


def _unpickled(state):
    return {**state, "object": state["object"] and pickle.loads(state["object"])}  # noqa: S301 of this test


@given(KEYS, st.integers(1, 20), st.integers(1, 20))
def test_spark_gets_the_same_with_and_without_pandas(keys, most_rows, max_rows):
    """Answers, states and their order; cut into chunks at random, on both sides.

    But for the value of a state that was not updated, which Spark does not read.
    """
    named = [(f'["{number}",""]', rows, value) for number, (rows, value) in enumerate(keys)]
    stock, own = both(counting, record_batches(named, most_rows), max_rows)
    assert answers(own) == answers(stock)
    assert states(own) == [state if is_updated(state) else {**state, "object": None} for state in states(stock)]
    assert [state["keyRowAsUnsafe"] for state in states(own)] == [f"unsafe {key}".encode() for key, _, _ in named]


def test_large_answers_are_sent_at_once_and_small_ones_together():
    """With any maximum of rows, a record batch has at most 4 MB and the answer that exceeds them.

    With pandas, as many empty rows as the maximum make PySpark send them.
    """
    sizes = [10, 3_000_000, 3_000_000, 10, 10, 5_000_000, 10]
    keys = [(f"k{number}", [str(size).encode()], None) for number, size in enumerate(sizes)]
    for output, empty in zip(both(large, record_batches(keys, 100), 1000), (1000, 0), strict=True):
        assert [count for count, _, _, _ in output] == [3 + empty, 3 + empty, 1]
        sent = [[len(answer["value"]) for answer in answered if answer["topic"]] for _, _, answered, _ in output]
        assert sent == [[10, 3_000_000, 3_000_000], [10, 10, 5_000_000], [10]]
        assert len(states(output)) == len(keys)


@pytest.mark.parametrize(("max_rows", "sent"), [(4, [4, 4, 2]), (10, [10]), (0, [10])])
def test_the_number_of_answers_in_a_record_batch_is_bounded(max_rows, sent):
    """0 means no limit."""
    output = run(KeyedStage(counting, COLUMNS, max_rows), record_batches([("k", [b"\0"] * 10, None)], 3))
    assert [count for count, _, _, _ in output if count] == sent


def test_a_foreign_function_goes_through_pyspark_itself():
    """This also applies to a worker that has run a stage of the project before."""
    batches = record_batches([("k", [b"\0"], None)], 10)
    run(KeyedStage(counting, COLUMNS, 10), batches)

    class Foreign:
        max_rows = 10

        def __call__(self, group, frames, state):
            for frame in frames:
                state.update((len(frame), None))
                yield pd.DataFrame({"topic": [group[0]] * len(frame), "key": None, "value": frame["request"]})

    assert answers(run(Foreign(), batches)) == [{"topic": "k", "key": None, "value": b"\0"}]


def test_an_error_of_the_function_is_an_error_of_the_task():
    """A StopIteration must not end the answers in silence."""
    stage = KeyedStage(stumbling_function, COLUMNS, 10)
    with pytest.raises(RuntimeError):
        run(stage, record_batches([("k", [b"\0"], None)], 10))


def test_the_release_of_pyspark_that_is_pinned_is_the_one_whose_functions_are_replaced():
    """Before another one is pinned: how does it send keys and states, and what does it call?

    See docs/decisions/programs/0003-the-enforcing-query.md.
    """
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert f"pyspark=={keyed.RELEASE}" in project["optional-dependencies"]["spark-submit"]
    assert importlib.metadata.version("pyspark") == keyed.RELEASE


def test_another_release_of_pyspark_is_one_line_in_the_log_of_the_driver_and_none_in_a_worker(monkeypatch, caplog):
    monkeypatch.setattr(keyed.pyspark, "__version__", "9.9.9")
    pickle.loads(pickle.dumps(KeyedStage(counting, COLUMNS, 10)))  # noqa: S301
    (line,) = caplog.messages
    assert line.startswith("PySpark 9.9.9: decisions are the same as with PySpark 4.2.0, but")
    assert "about 0.5 ms for each key" in line


def test_a_node_with_another_release_of_pyspark_than_the_driver_is_an_error(monkeypatch):
    """The driver has planned that the output has no empty rows."""
    pickled = pickle.dumps(KeyedStage(counting, COLUMNS, 10))
    monkeypatch.setattr(keyed.pyspark, "__version__", "9.9.9")
    with pytest.raises(MutationQuotaError, match=r"^PySpark 9\.9\.9 on a node, .* install pyspark==4\.2\.0$"):
        pickle.loads(pickled)  # noqa: S301


def test_a_stage_that_a_profiler_hides_is_an_error_with_advice():
    with pytest.raises(MutationQuotaError, match=r"remove spark\.python\.profile"):
        next(KeyedStage(counting, COLUMNS, 10)(("k",), iter([]), None))
