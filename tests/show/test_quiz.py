"""The claim quiz without a browser: press its buttons, answer in code, read what stays in a stored notebook."""

import dataclasses
from pathlib import Path

import nbformat
import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

from labkit import show
from labkit.course.outputs import WIDGET_VIEW, clean
from labkit.errors import LabkitError
from labkit.exercises import claims, progress
from labkit.show.quiz import as_html, reply


@pytest.fixture(autouse=True)
def own_progress(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress.json"))


def test_without_a_kernel_the_sentences_stand_there():
    text = repr(show.quiz("C041", "C051"))
    assert text.splitlines()[0] == "True, false, or it depends?"
    assert text.splitlines()[1] == f"C041  {claims.find('C041').statement}"


@pytest.mark.parametrize("choice", claims.CHOICES)
def test_each_button_says_the_explanation_of_its_choice_and_notes_it(choice):
    quiz = show.quiz("C041")
    row = quiz._rows["C041"]
    next(button for button in row.choices if button.description == choice).click()
    right = choice == "it depends"
    assert row.said.value.startswith(f"<b>Agreed: {choice}.</b>" if right else f"<b>Not {choice}.</b>")
    assert as_html(claims.find("C041").explanations[choice]) in row.said.value
    assert progress.read()["claims"]["C041"]["is_right"] is right


def test_the_measuring_button_shows_the_evidence():
    quiz = show.quiz("C041")
    quiz._rows["C041"].measure.click()
    assert "So: <b>it depends</b>." in quiz._rows["C041"].measured.value
    assert quiz.demonstrate("C041").choice == "it depends"


def test_a_claim_that_nothing_measures_has_no_live_button():
    judged = next(known for known in claims.all_claims() if known.unmeasured)
    assert show.quiz(judged.id)._rows[judged.id].measure.disabled


def test_answers_can_be_given_in_code(capsys):
    show.quiz("C051").answer("C051", "true")
    assert capsys.readouterr().out.startswith("Not true.")
    show.quiz("C051").answer("C051", "it depends")
    assert capsys.readouterr().out.startswith('Not "it depends".')


def test_mistakes_are_sentences():
    with pytest.raises(LabkitError, match="at least one claim"):
        show.quiz()
    with pytest.raises(LabkitError, match="The ledger has no claim 'C999'"):
        show.quiz("C999")
    with pytest.raises(LabkitError, match="This quiz asks C041, not 'C051'"):
        show.quiz("C041").answer("C051", "true")
    with pytest.raises(LabkitError, match="'maybe' is none of the answers; they are 'true', 'false', 'it depends'"):
        show.quiz("C041").answer("C041", "maybe")
    untaught = next(known for known in claims.all_claims() if not known.explanations)
    with pytest.raises(LabkitError, match="cannot be asked: no chapter teaches it yet"):
        show.quiz(untaught.id)


def test_the_reply_ends_with_the_verdict_and_the_right_statement():
    asked = claims.find("C041")
    assert reply(asked, "false").endswith(f"\n\n**It depends; a part holds.** {asked.right_statement}")
    assert reply(claims.find("C083"), "false").endswith("**True.** Exactly so.")


def test_markdown_becomes_html_and_nothing_slips_through():
    assert as_html("**a** `b < c`\n\n- d\n- e\n\nf") == "<b>a</b> <code>b &lt; c</code><br>• d<br>• e<br>f"
    assert as_html("`x ** 2` and `y ** 3`") == "<code>x ** 2</code> and <code>y ** 3</code>"


def test_a_measurement_that_fails_is_a_sentence_under_its_button():
    def fails() -> dict[str, bool]:
        raise RuntimeError("out of ideas")

    quiz = show.quiz("C041")
    row = quiz._rows["C041"]
    row._asked = dataclasses.replace(row._asked, measure=fails)
    row.measure.click()
    assert row.measured.value.startswith("The demonstration of C041 stopped with RuntimeError: out of ideas.")


def test_in_a_notebook_the_widgets_come_with_text_that_stays():
    quiz = show.quiz("C041", "C051")
    shell = InteractiveShell.instance()
    publisher, shell.display_pub = shell.display_pub, CapturingDisplayPublisher()
    try:
        quiz._ipython_display_()
        (output,) = shell.display_pub.outputs
    finally:
        shell.display_pub = publisher
        InteractiveShell.clear_instance()
    assert WIDGET_VIEW in output["data"] and output["data"]["text/plain"] == repr(quiz)
    assert repr(show.quiz("C041", "C051")) == repr(quiz)
    (stored,) = clean([nbformat.v4.new_output("display_data", output["data"])], Path())
    assert set(stored.data) == {"text/plain", "text/markdown"}


def test_small_letters_name_a_claim_too(capsys):
    quiz = show.quiz("c041")
    quiz.answer("c041", "it depends")
    assert capsys.readouterr().out.startswith("Agreed: it depends.")
    assert list(progress.read()["claims"]) == ["C041"]
    assert quiz.demonstrate("c041") == quiz.demonstrate("C041")
