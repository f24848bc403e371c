"""A circle in a graph would be seen: torch makes none, so one is built here."""

from labkit.exercises.ledger.autograd_graph import has_circle


def test_a_circle_would_be_seen():
    class Node:
        def __init__(self, *following):
            self.next_functions = [(node, 0) for node in following]

    end = Node(None)
    shared = Node(end)
    assert not has_circle(Node(shared, shared))
    end.next_functions = [(shared, 0)]
    assert has_circle(Node(shared))
