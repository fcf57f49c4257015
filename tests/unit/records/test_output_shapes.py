"""One name has one shape in all documents that commands print."""

from collections import defaultdict

from msgspec import inspect

from schemas.command_schemas import DOCUMENTS, structs_in


def shapes():
    """Return the shapes of each field's name, over all structs of `schemas.documents`."""
    found = defaultdict(set)
    for struct in structs_in(*DOCUMENTS.values()).values():
        if struct.__module__.startswith("schemas.documents"):
            for field in inspect.type_info(struct).fields:
                kinds = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
                found[field.encode_name] |= {type(each).__name__ for each in kinds} - {"NoneType"}
    return found


def test_a_name_is_not_a_list_in_one_document_and_a_count_in_another():
    found = shapes()
    assert "ListType" in found["topics"]
    mixed = {name for name, kinds in found.items() if "IntType" in kinds and kinds & {"ListType", "DictType"}}
    assert mixed == {"value", "default"}  # those of a setting, which may be either


def test_whether_changes_were_made_has_one_name():
    assert shapes().keys() & {"sent", "published", "carried_out"} == set()
    changing = ("buckets-reset", "callback-publish-metadata", "dead-letters-resend", "maintain", "quotas-apply")
    for name in (*changing, "quotas-push"):
        assert "applied" in DOCUMENTS[name].__struct_fields__
