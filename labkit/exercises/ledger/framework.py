"""Measurements for the topic "Framework and dynamic graph"."""

import torch
from torch import nn

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import graph_nodes


class Repeated(nn.Module):
    """Applies one layer as often as it is told, and tanh wherever the values have become positive in sum."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        nn.init.ones_(self.layer.weight)

    def forward(self, inputs: torch.Tensor, times: int) -> torch.Tensor:
        """Return one number from inputs of shape (batch, 3)."""
        for _ in range(times):
            inputs = self.layer(inputs)
            if inputs.sum() > 0:
                inputs = torch.tanh(inputs)
        return inputs.sum()


@claim(
    "C001",
    true="The graph is a recording of what the Python code did. The same module left a longer recording when its "
    "loop ran longer, and a node for `tanh` only where the branch was taken.",
    false="You may think of the model as a drawing that exists before any data. Nothing is drawn before: the nodes "
    "come into being line by line while `forward` runs, so the number of nodes followed the loop.",
    depends="`torch.compile` and export do make a plan beforehand, but on request and on top. What you get without "
    "asking is the recording, and it was different for each of these inputs.",
)
def the_graph_is_recorded_while_python_runs() -> dict[str, bool]:
    """Compare the graphs that one module leaves for two numbers of iterations and for two signs of the data."""
    module, positive = Repeated(), torch.ones(2, 3)
    once, thrice = graph_nodes(module(positive, 1)), graph_nodes(module(positive, 3))
    untaken = graph_nodes(module(-10 * positive, 1))
    return {
        "more iterations of the loop leave more nodes in the graph": len(thrice) > len(once),
        "`TanhBackward0` is in the graph only where the branch was taken": "TanhBackward0" in once
        and "TanhBackward0" not in untaken,
    }
