"""The claim quiz: sentences from tutorials, a choice for each, and the measurement that settles it."""

import html
import re

import ipywidgets
from IPython.display import display

from labkit.errors import LabkitError
from labkit.exercises import claims, progress
from labkit.exercises.claims import CHOICES, Claim, Evidence
from labkit.exercises.results import say


class Quiz:
    """Some claims with three buttons each, and one that measures.

    Left as the last line of a cell it shows itself; without a kernel the sentences stay. `answer("C041", "false")` and
    `demonstrate("C041")` press the buttons without a mouse.
    """

    def __init__(self, *claim_ids: str) -> None:
        if not claim_ids:
            raise LabkitError('A quiz needs at least one claim: quiz("C041", …).')
        self.claims = {found.id: found for found in map(claims.find, claim_ids)}
        for found in self.claims.values():
            if not found.explanations:
                raise LabkitError(f"{found.id} cannot be asked: no chapter teaches it yet.")
        self._rows = {claim_id: _Row(self, found) for claim_id, found in self.claims.items()}

    def answer(self, claim_id: str, choice: str) -> None:
        """Give an answer in code: show what there is to say about it and note it, as the buttons do."""
        say(self._answered(claim_id, choice))

    def demonstrate(self, claim_id: str) -> Evidence:
        """Measure one of the claims and return the evidence."""
        return self._claim(claim_id).demonstrate()

    def _answered(self, claim_id: str, choice: str) -> str:
        asked = self._claim(claim_id)
        text = reply(asked, choice)
        progress.record_claim(asked.id, choice, choice == asked.choice)
        return text

    def _claim(self, claim_id: str) -> Claim:
        if str(claim_id).upper() not in self.claims:
            raise LabkitError(f"This quiz asks {', '.join(self.claims)}, not {claim_id!r}.")
        return self.claims[claim_id.upper()]

    def __repr__(self) -> str:
        lines = [f"{claim_id}  {asked.statement}" for claim_id, asked in self.claims.items()]
        return "\n".join(["True, false, or it depends?", *lines])

    def _repr_markdown_(self) -> str:
        lines = [f"- **{claim_id}** {asked.statement}" for claim_id, asked in self.claims.items()]
        return "\n".join(["True, false, or it depends?", "", *lines])

    def _ipython_display_(self) -> None:
        bundle = ipywidgets.VBox([row.box for row in self._rows.values()])._repr_mimebundle_()
        display({**bundle, "text/markdown": self._repr_markdown_(), "text/plain": repr(self)}, raw=True)


class _Row:
    """The widgets of one claim: the sentence, three choices, a button that measures, and room for what is said."""

    def __init__(self, quiz: Quiz, asked: Claim) -> None:
        self._quiz, self._asked = quiz, asked
        self.choices = [ipywidgets.Button(description=choice, layout={"width": "8em"}) for choice in CHOICES]
        self.measure = ipywidgets.Button(description="measure it", icon="flask", layout={"width": "9em"})
        self.said, self.measured = ipywidgets.HTML(), ipywidgets.HTML()
        for button in self.choices:
            button.on_click(self._chosen)
        self.measure.on_click(self._measured)
        self.measure.disabled = asked.measure is None
        sentence = ipywidgets.HTML(f"<b>{asked.id}</b> {as_html(asked.statement)}")
        self.box = ipywidgets.VBox(
            [sentence, ipywidgets.HBox([*self.choices, self.measure]), self.said, self.measured],
            layout={"margin": "0 0 1em 0"},
        )

    def _chosen(self, button: ipywidgets.Button) -> None:
        self.said.value = as_html(self._quiz._answered(self._asked.id, button.description))

    def _measured(self, button: ipywidgets.Button) -> None:
        self.measured.value = "Measuring …"
        try:
            self.measured.value = as_html(self._asked.demonstrate()._repr_markdown_())
        except LabkitError as error:
            self.measured.value = as_html(str(error))


def quiz(*claim_ids: str) -> Quiz:
    """Return a quiz of some claims of the ledger. Raises LabkitError for an id that it does not have."""
    return Quiz(*claim_ids)


def reply(asked: Claim, choice: str) -> str:
    """Return what to say to a choice, as Markdown. Raises LabkitError for what is none of the three choices."""
    if choice not in CHOICES:
        raise LabkitError(f"{choice!r} is none of the answers; they are {', '.join(map(repr, CHOICES))}.")
    refused = 'Not "it depends"' if choice == "it depends" else f"Not {choice}"
    start = f"**Agreed: {choice}.**" if choice == asked.choice else f"**{refused}.**"
    verdict = asked.verdict_text[0].upper() + asked.verdict_text[1:]
    return f"{start} {asked.explanations[choice]}\n\n**{verdict}.** {asked.right_statement}"


def as_html(markdown: str) -> str:
    """Return the little Markdown of the ledger as HTML: bold, code, lists and paragraphs."""
    text = html.escape(markdown, quote=False)
    text = re.sub(r"`([^`]+)`|\*\*(.+?)\*\*", _marked, text)  # in one go: code such as `x ** 2` has stars of its own
    text = re.sub(r"(?m)^- ", "• ", text)
    return re.sub(r"\n+", "<br>", text)


def _marked(found: re.Match) -> str:
    code, bold = found.groups()
    return f"<code>{code}</code>" if code else f"<b>{bold}</b>"
