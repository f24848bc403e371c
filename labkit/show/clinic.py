"""The clinic to play: a story, the code, the picture of its training, and a list of faults to choose from."""

import html
from datetime import date as Date
from functools import lru_cache

import ipywidgets
from IPython.display import DisplayHandle, display

from labkit.doctor import clinic, examine
from labkit.doctor.clinic import Case, Observation, Reply
from labkit.exercises import progress
from labkit.show.clinic_figure import clinic_figure
from labkit.show.picture import Picture

GROUPS = ("level 1", "level 2", "level 3", "today's three", "all")


@lru_cache(maxsize=16)
def observed(name: str, seed: int = 0, cured: bool = False) -> Observation:
    """Return a run of a case; the same run is made once."""
    return clinic.run(clinic.find(name), seed, cured)


class Clinic:
    """One case after the other: choose, look, name the fault, mend it, and compare with the doctor.

    Left as the last line of a cell it shows itself; without a kernel story, code and picture stay. `choose`, `answer`,
    `mend` and `ask_the_doctor` do without a mouse what the menus and buttons do. Answers are kept in the learner's
    progress: the first one, and whether the case was solved at some time.
    """

    def __init__(self, name: str | None = None, date: str | Date | None = None, seed: int = 0) -> None:
        self._date, self._seed = date or Date.today(), seed
        self._shown: DisplayHandle | None = None
        self._group = ipywidgets.Dropdown(options=GROUPS, description="cases", layout={"width": "16em"})
        self._names = ipywidgets.Dropdown(description="patient", layout={"width": "16em"})
        words = sorted(clinic.WORDS.values())
        self._fault = ipywidgets.Dropdown(options=words, description="it is", layout={"width": "36em"})
        self._buttons = {
            words: ipywidgets.Button(description=words, layout={"width": "13em"})
            for words in ("say it", "mend it", "ask the doctor")
        }
        self._paper, self._said = ipywidgets.HTML(), ipywidgets.HTML()
        self.choose(name or clinic.cases(1)[0].name)
        self._group.observe(lambda _: self._fill_names(), names="value")
        self._names.observe(lambda change: change["new"] and self.choose(change["new"]), names="value")
        self._buttons["say it"].on_click(lambda _: self.answer(self._fault.value))
        self._buttons["mend it"].on_click(lambda _: self.mend())
        self._buttons["ask the doctor"].on_click(lambda _: self.ask_the_doctor())

    def choose(self, name: str) -> Picture:
        """Take a case, train it and return its picture. Raises ConfigError for an unknown name."""
        self.case: Case = clinic.find(name)
        if name not in self._of_group():
            self._group.value = "all"
        self._names.options = self._of_group()
        self._names.value = name
        self._paper.value = f"<p>{html.escape(self.case.story)}</p><pre>{html.escape(self.case.code)}</pre>"
        self._said.value = "<i>Training …</i>"
        picture = self._show(clinic_figure(observed(name, self._seed)))
        self._said.value = ""
        return picture

    def answer(self, fault: str) -> Reply:
        """Name the fault, by its label or in plain words; the answer is shown, noted and returned."""
        reply = clinic.reply(self.case, observed(self.case.name, self._seed), fault)
        progress.record_case(self.case.name, clinic.label_of(fault), reply.is_right)
        self._say(reply.text)
        return reply

    def mend(self) -> Picture:
        """Show the cure as code, and the cured run beside the ill one."""
        self._said.value = "<i>Training …</i>"
        ill, cured = (observed(self.case.name, self._seed, is_cured) for is_cured in (False, True))
        self._say(f"{self.case.cure}\n{self.case.diff()}\n{worth(ill, cured)}")
        return self._show(clinic_figure(ill, cured))

    def ask_the_doctor(self) -> str:
        """Show what `labkit.doctor.examine` says about the pieces of this script, and return it."""
        self._said.value = "<i>The doctor looks …</i>"
        text = str(examine(**clinic.pieces(self.case, seed=self._seed)))
        self._say(text)
        return text

    def _of_group(self) -> list[str]:
        """Return the names in the group that is chosen."""
        group = self._group.value
        if group == "today's three":
            return [case.name for case in clinic.daily_mix(self._date, self._seed)]
        return [case.name for case in clinic.cases(int(group[-1]) if group.startswith("level") else None)]

    def _fill_names(self) -> None:
        names = self._of_group()
        if self.case.name not in names:
            self._names.options = names  # the menu goes to the first, and that chooses it

    def _show(self, picture: Picture) -> Picture:
        self.picture = picture
        if self._shown is not None:
            self._shown.update(picture)
        return picture

    def _say(self, text: str) -> None:
        self._said.value = f"<pre style='white-space: pre-wrap'>{html.escape(text)}</pre>"

    def __repr__(self) -> str:
        return f"Patient {self.case.name}. {self.case.story}\n\n{self.case.code}\n{self.picture.summary}"

    def _ipython_display_(self) -> None:
        rows = [
            ipywidgets.HBox([self._group, self._names]),
            self._paper,
            ipywidgets.HBox([self._fault, self._buttons["say it"]]),
            ipywidgets.HBox([self._buttons["mend it"], self._buttons["ask the doctor"]]),
            self._said,
        ]
        bundle = ipywidgets.VBox(rows)._repr_mimebundle_()
        text = f"{self.case.story}\n\n```python\n{self.case.code}```"
        display({**bundle, "text/markdown": text, "text/plain": repr(self)}, raw=True)
        self._shown = display(self.picture, display_id=True)


def clinic_control(name: str | None = None, date: str | Date | None = None, seed: int = 0) -> Clinic:
    """Return the clinic, with a case to begin with; `date` chooses what "today's three" are.

    Raises ConfigError for an unknown case or what is no date.
    """
    if date is not None:
        clinic.daily_mix(date, seed)
    return Clinic(name, date, seed)


def worth(ill: Observation, cured: Observation) -> str:
    """Say in one line what a case and its cure measure: the script's own score, and what they are really worth."""
    ends = [f"{seen.last['val_score']:.3f}" if seen.epochs else "nothing" for seen in (ill, cured)]
    return (
        f"The script reports {ends[0]} with the fault and {ends[1]} without; "
        f"what the clinic measures is {ill.measured:.3f} and {cured.measured:.3f}."
    )
