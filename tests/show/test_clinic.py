"""The clinic without a browser: its picture, its menus, its buttons."""

import pytest

from labkit import show
from labkit.doctor import clinic
from labkit.errors import ConfigError
from labkit.exercises import progress


@pytest.fixture(autouse=True)
def own_progress(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress.json"))


@pytest.mark.parametrize("name", ["heron", "adder", "robin"])
def test_the_picture_is_pure_and_says_how_it_ends(name):
    seen = clinic.run(clinic.find(name))
    picture = show.clinic_figure(seen)
    assert picture.summary.startswith(f"{name}: after 8 epochs")
    assert {row["kind"] for row in picture.data} == {"epoch", "gradient", "ratio"}
    assert picture.png() == show.clinic_figure(seen).png()


def test_a_case_is_named_mended_and_kept_in_the_progress():
    control = show.clinic_control("heron")
    assert repr(control).startswith("Patient heron. “The gradients look fine.")
    assert "step_missing" not in repr(control), "the answer is not given away"
    assert not control.answer("lr_too_low").is_right and control.answer("step_missing").is_right
    assert progress.read()["clinic"] == {"heron": {"first": "lr_too_low", "right_at_once": False, "is_right": True}}
    control.mend()
    assert "+    optimizer.step()" in control._said.value and control.picture.png()


def test_the_menus_and_the_button_do_the_same():
    control = show.clinic_control("heron", date="2026-03-01")
    control._group.value = "today's three"
    mix = [case.name for case in clinic.daily_mix("2026-03-01")]
    assert list(control._names.options) == mix and control.case.name == mix[0]
    control._fault.value = clinic.WORDS[control.case.label]
    control._buttons["say it"].click()
    assert "Right: " in control._said.value


def test_the_doctor_is_asked():
    assert show.clinic_control("heron").ask_the_doctor().startswith("FAIL  step_missing")


def test_what_is_no_case_and_no_date_is_refused():
    with pytest.raises(ConfigError, match="There is no case 'unicorn'"):
        show.clinic_control("unicorn")
    with pytest.raises(ConfigError, match="A date is written"):
        show.clinic_control(date="tomorrow")
