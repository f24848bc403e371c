import pytest

from labkit import show
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
    assert row.said.value.startswith(f"<b>Right, {choice}.</b>" if right else f"<b>Not {choice}.</b>")
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


def test_the_reply_ends_with_the_right_statement():
    asked = claims.find("C041")
    assert reply(asked, "false").endswith(asked.right_statement)


def test_markdown_becomes_html_and_nothing_slips_through():
    assert as_html("**a** `b < c`\n\n- d") == "<b>a</b> <code>b &lt; c</code><br>• d<br>"
