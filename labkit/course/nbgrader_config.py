"""Settings with which nbgrader makes assignments from the notebooks that `labkit solve` wrote, and grades them.

    labkit solve all --out course/source/chapters      the solved notebooks are nbgrader's "source"
    mv course/source/chapters/nbgrader_config.py course/
    cd course
    nbgrader generate_assignment chapters              release/chapters: what learners get
    nbgrader autograde chapters                        submitted/NAME/chapters: what they gave back

What learners get is the course's own notebook: its stubs, and no notes for teachers.
"""

import os

from nbgrader.converters import GenerateAssignment
from nbgrader.preprocessors import ClearSolutions
from traitlets.config import get_config


class LearnersText(ClearSolutions):
    """Puts back what learners have in the place of answers, and drops the notes for teachers."""

    def preprocess(self, nb, resources):
        """Drop the notes, then go through the cells."""
        nb.cells = [cell for cell in nb.cells if "teaching-note" not in cell.metadata.get("tags", [])]
        nb.metadata.pop("labkit", None)
        return super().preprocess(nb, resources)

    def preprocess_cell(self, cell, resources, cell_index):
        """Return the cell as learners have it; cells that the course knows nothing of are cleared as nbgrader does."""
        if "learner" not in cell.metadata:
            return super().preprocess_cell(cell, resources, cell_index)
        cell.source = cell.metadata.pop("learner")
        return cell, resources


os.environ["LABKIT_PROGRESS"] = "off"  # what is graded here is nobody's own progress

c = get_config()
c.CourseDirectory.course_id = "labkit"
c.GenerateAssignment.preprocessors = [
    LearnersText if stage is ClearSolutions else stage for stage in GenerateAssignment.preprocessors.default()
]
c.Execute.timeout = 600  # seconds for a cell; nbgrader gives 30
