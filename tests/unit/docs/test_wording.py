"""One idea has one word on pages, in docstrings, help and messages."""

import subprocess
import sys

import pytest

from conf.docs import wording
from conf.docs.wording import findings_in_files, findings_in_makefile, findings_in_prose, findings_in_python, rules
from tests.support.checkout import CHECKOUT

RULES = rules()


def words(found):
    return [(each.line, each.word) for each in found]


def test_texts_use_the_projects_vocabulary():
    done = subprocess.run(
        [sys.executable, "-m", wording.__name__], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("", 0)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.use)
def test_each_rule_finds_its_example(rule):
    assert len(list(findings_in_prose(rule.example, [rule]))) == 1


def test_a_word_is_found_at_its_line_also_across_the_end_of_a_line():
    text = "# A page\n\nThe job passes\nover the others, and begins Anew.\n"
    assert words(findings_in_prose(text, RULES)) == [(4, "Anew"), (3, "passes over")]


@pytest.mark.parametrize("text", ["Run `anew`.", "```sh\nanew\n```\n", "[again](anew.md#anew)", "a canewood"])
def test_code_and_links_and_parts_of_words_do_not_count(text):
    assert words(findings_in_prose(text, RULES)) == []


def test_docstrings_comments_help_and_messages_of_python_count():
    source = (
        '"""Begins all anew."""\n\nfrom a import x\n\nx = Option(help="Begin it anew.")  # anew\n'
        'raise BadInput(f"{x}: the state is begun anew")\n'
    )
    assert sorted(words(findings_in_python(source, RULES))) == [(1, "anew"), (5, "anew"), (5, "anew"), (6, "anew")]


def test_the_help_of_make_counts_and_its_recipes_do_not():
    text = "# Begun anew.\nrun: setup ## begin anew\n\t@echo begun anew\n"
    assert words(findings_in_makefile(text, RULES)) == [(2, "anew")]


def test_texts_of_one_word_count():
    assert words(findings_in_python('x = {"Anew": 1}\n', RULES)) == [(1, "Anew")]


@pytest.mark.parametrize("name", ["told_at", "_told", "heardAt", "class Told: pass", "def f(*, anew=1): pass"])
def test_names_count_by_their_parts(name):
    found = words(findings_in_python(f"{name}\n", RULES))
    assert [(line, word.lower()) for line, word in found] in ([(1, "told")], [(1, "heard")], [(1, "anew")])


def test_parts_of_a_name_count_only_for_rules_that_ask_for_it_and_not_within_a_word():
    assert words(findings_in_python("likewise = threshold = 1\n", RULES)) == []


def test_scripts_count_also_in_backquotes():
    assert words(findings_in_files("setText(node, `begun anew`);  // heard\n", RULES)) == [(1, "anew"), (1, "heard")]
