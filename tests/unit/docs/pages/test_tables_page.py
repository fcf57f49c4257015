"""The page on the tables has every column, and no others."""

import re

import pytest
from pyspark.sql.types import ArrayType, StructType

from jobs.audit.effective import EFFECTIVE
from schemas.table_docs import DOCUMENTED, PAGE, with_columns


def names_in(schema, within=""):
    for field in schema:
        yield within + field.name
        inner = field.dataType
        if isinstance(inner, ArrayType):
            yield from (
                names_in(inner.elementType, f"{within}{field.name}[].") if hasattr(inner.elementType, "fields") else ()
            )
        elif isinstance(inner, StructType):
            yield from names_in(inner, f"{within}{field.name}.")


def test_the_page_is_current():
    """`make references` updates it."""
    page = PAGE.read_text()
    assert with_columns(page) == page


@pytest.mark.parametrize(("table", "schema"), DOCUMENTED.items(), ids=DOCUMENTED)
def test_each_column_and_each_field_in_it_has_a_line_that_says_what_it_means(table, schema):
    (section,) = re.findall(rf"^## {table}\n(.*?)^## ", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^\| `([^`]+)` \| `[^`]+` \| [^|]* \| [^|]+ \|$", section, re.MULTILINE)
    assert lines == list(names_in(schema))
    assert "```sql" in section


def test_both_views_of_mutations_include_the_effective_ones():
    assert PAGE.read_text().count(f"WHERE {EFFECTIVE.format(number='number')}") == 2
